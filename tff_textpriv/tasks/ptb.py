"""Next-word prediction on Penn Treebank, shuffled and dealt to clients.

python -m tff_textpriv.tasks.ptb --algo=fed_att --data=FOLDER
"""

from tff_textpriv.datasets import lm_text
from tff_textpriv.tasks import base, shuffled_text

TASK = shuffled_text.make_task('ptb', lm_text.PENN_TREEBANK)

if __name__ == '__main__':
  base.main(TASK)
