"""What `--data` and `--public_data` mean, for all language-model tasks."""

import dataclasses
from collections.abc import Callable

from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import clients, embedded, plain_text
from tff_textpriv.training import language_settings


def load(
  chosen: language_settings.LanguageModelSettings,
  *,
  embedded_seed: int,
  read: Callable[[str], clients.FederatedText],
  download: Callable[[str], str] | str,
) -> clients.FederatedText:
  """Reads the data that the settings name.

  Args:
    chosen: The task's settings.
    embedded_seed: The seed of the task's embedded corpus.
    read: Reads the task's data from a path.
    download: Fetches the task's data into a folder and returns the path; or a text that
      says why nothing can, and what to do instead.

  Returns:
    The data, with public text if there is any, in the form of users' text.
  """
  if chosen.data == 'embedded':
    data = embedded.build(embedded_seed, num_train_users=chosen.num_users)
  elif chosen.data == 'download':
    if isinstance(download, str):
      raise settings_lib.SettingsError('data', 'download', download)
    data = read(download(chosen.data_dir))
  else:
    data = read(chosen.data)
  if chosen.public_data is not None:
    public_text = data.form.of_public(list(plain_text.read_lines(chosen.public_data)))
    data = dataclasses.replace(data, public_text=public_text)
  return data
