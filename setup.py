"""Packaging metadata of tff_textpriv; `requirements.lock` pins the exact versions."""

import pathlib

import setuptools

_HERE = pathlib.Path(__file__).parent


def _version() -> str:
  """Reads `__version__` without importing the package (and so TensorFlow)."""
  for line in (_HERE / 'tff_textpriv' / '__init__.py').read_text().splitlines():
    if line.startswith('__version__'):
      return line.split("'")[1]
  raise RuntimeError('tff_textpriv/__init__.py does not define __version__')


setuptools.setup(
  name='tff_textpriv',
  version=_version(),
  description=(
    'Private federated learning for text on TensorFlow Federated: methods,'
    ' honest baselines, and privacy figures that are true.'
  ),
  long_description=(_HERE / 'README.md').read_text(),
  long_description_content_type='text/markdown',
  license='Apache-2.0',
  packages=setuptools.find_packages(include=['tff_textpriv', 'tff_textpriv.*']),
  package_data={
    'tff_textpriv': ['py.typed'],
    'tff_textpriv.experiments': [
      'demo.flags',
      'studies/*.toml',
      'studies/common/*.toml',
    ],
    'tff_textpriv.reports': ['style.css'],
  },
  # The engine (TFF 0.87.0) has wheels for 3.9 to 3.11; the lock is made for 3.11.
  python_requires='>=3.11,<3.12',
  install_requires=[
    'absl-py>=1.4,<2',
    'cryptography>=42',
    'dm-tree>=0.1.8',
    'dp-accounting==0.4.3',
    # word2vec vectors, one of the references of the classification tasks.
    'gensim>=4.3',
    'grpcio>=1.46',
    'h5py>=3.9',
    'markupsafe>=2.1',
    'matplotlib>=3.7',
    'numpy>=1.25,<2',
    'packaging>=22',
    'prompt-toolkit>=3.0.41',
    'protobuf>=4',
    'psutil>=5.9',
    # Parquet files of one's own text; newer ones want another NumPy than TensorFlow.
    'pyarrow>=15,<18',
    'safetensors>=0.4.3',
    'scipy>=1.9',
    'sentencepiece>=0.1.99',
    # tensorflow-hub, which tensorflow-text imports, needs pkg_resources.
    'setuptools<70',
    'tensorflow>=2.14,<2.15',
    'tensorflow-federated==0.87.0',
    'tensorflow-privacy==0.9.0',
    'tensorflow-text>=2.14,<2.15',
    'tqdm>=4.64',
  ],
  extras_require={
    'dev': [
      'mypy',
      'pytest',
      'ruff',
      'scikit-learn',
      # What exported tokenizers are checked with; newer ones need a Hub client.
      'tokenizers>=0.13.3,<0.14',
      'types-psutil',
      'types-tqdm',
    ],
    # Newer IPythons need a typing-extensions that TFF's pin excludes.
    'notebooks': ['ipykernel', 'ipython<8.23', 'nbclient', 'nbconvert', 'nbformat'],
  },
  classifiers=[
    'Development Status :: 4 - Beta',
    'Intended Audience :: Science/Research',
    'License :: OSI Approved :: Apache Software License',
    'Operating System :: POSIX :: Linux',
    'Programming Language :: Python :: 3.11',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
  ],
)
