"""Next-word prediction on WikiText-2, shuffled and dealt to clients.

python -m tff_textpriv.tasks.wikitext2 --algo=fed_att --data=FOLDER
"""

from tff_textpriv.datasets import lm_text
from tff_textpriv.tasks import base, shuffled_text

TASK = shuffled_text.make_task('wikitext2', lm_text.WIKITEXT_2)

if __name__ == '__main__':
  base.main(TASK)
