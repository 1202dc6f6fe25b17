"""MovieLens's formats: features, labels, keywords, and what is wrong with broken files."""

import numpy as np
import pytest

from tff_textpriv.datasets import clients, movielens


@pytest.fixture
def folder(tmp_path):
  users = [
    f'{i}::{"FM"[i % 2]}::{(1, 25, 56)[i % 3]}::{i}::12345' for i in range(1, 21)
  ]
  movies = [
    "1::Toy Story (1995)::Animation|Children's|Comedy",
    '2::Matrix, The (1999)::Action|Sci-Fi',
    '3::Miséria (Misère) (1919)::Drama',
  ]
  ratings = [
    f'{user}::{movie}::{(user + movie) % 5 + 1}::978300760'
    for user in range(1, 21)
    for movie in (1, 2, 3)
  ]
  for name, lines in (('users', users), ('movies', movies), ('ratings', ratings)):
    content = '\n'.join(lines) + '\n'
    (tmp_path / f'{name}.dat').write_bytes(content.encode('latin-1'))
  return tmp_path


def _load(folder, keywords='auto'):
  return movielens.load(str(folder), keywords, seed=0)


def _examples(data):
  return (data.train, data.validation, data.test)


def test_ratings_of_four_and_five_are_positive_and_users_are_in_one_group(folder):
  data = _load(folder)
  assert sum(len(examples) for examples in _examples(data)) == 60
  assert min(len(examples) for examples in _examples(data)) >= 3
  users = [set(examples.users) for examples in _examples(data)]
  assert sum(map(len, users)) == len(set.union(*users)) == 20
  for examples in _examples(data):
    # Movies are numbered from 0 here, and from 1 in the files.
    stars = (examples.users + examples.text_of + 1) % 5 + 1
    np.testing.assert_array_equal(examples.labels, stars >= 4)


def test_features_are_those_of_user_and_movie(folder):
  train = _load(folder).train
  for row in range(len(train)):
    user, movie = train.users[row], train.text_of[row] + 1
    age, gender, *rest = train.dense[row]
    assert age == pytest.approx((1, 25, 56)[user % 3] / 56)
    assert gender == (user % 2 == 0)
    occupation, year, genres = rest[:21], rest[21], rest[22:]
    assert np.flatnonzero(occupation).tolist() == [user]
    assert year == pytest.approx({1: 76 / 81, 2: 80 / 81, 3: 0}[movie])
    names = [movielens.GENRES[i] for i in np.flatnonzero(genres)]
    assert names == {
      1: ['Animation', "Children's", 'Comedy'], 2: ['Action', 'Sci-Fi'], 3: ['Drama']
    }[movie]  # fmt: skip


def test_keywords_are_joined_by_movie_and_lose_their_stop_words(folder):
  (folder / 'movie_keywords.tsv').write_text(
    'movieId\timdbId\tkeywords\n1\t0\tboy next door|toy comes to life\n2\t1\tThe one\n'
  )
  assert list(_load(folder).train.texts) == ['boy next door toy comes life', 'one', '']
  assert list(_load(folder, 'none').train.texts) == ['', '', '']


def test_keywords_are_joined_by_title_and_year(folder, tmp_path):
  file = tmp_path / 'own.tsv'
  file.write_text(
    'title\tyear\tkeywords\nThe Matrix\t1999\tagent\nToy Story\t1996\twrong year\n'
    'TOY STORY\t1995\ttoys\n'
  )
  assert list(_load(folder, str(file)).train.texts) == ['toys', 'agent', '']


@pytest.mark.parametrize(
  ('name', 'line', 'problem'),
  [
    ('ratings.dat', '1::2::5', '61: 3 fields'),
    ('ratings.dat', '1::99::5::0', '61: no such user, movie or rating'),
    ('ratings.dat', '1::2::6::0', '61: no such user, movie or rating'),
    ('users.dat', '99::X::1::1::1', '21: the gender is neither'),
    ('users.dat', '99::F::1::21::1', '21: the occupation is not'),
    ('movies.dat', '4::No year::Drama', '4: no year after the title'),
    ('movies.dat', '4::Title (1990)::Dada', '4: a genre is none of the 18'),
  ],
)
def test_a_broken_line_is_refused_with_its_place(folder, name, line, problem):
  with open(folder / name, 'a') as file:
    file.write(line + '\n')
  with pytest.raises(clients.DataError, match=rf'{name}:{problem}.*expected'):
    _load(folder)


def test_a_broken_keyword_file_is_refused(folder, tmp_path):
  file = tmp_path / 'own.tsv'
  for content, problem in (
    ('id\tkeywords\n', r'own\.tsv:1: the first line does not name'),
    ('movieId\tkeywords\n1\n', r'own\.tsv:2: 1 columns under 2 names'),
    ('movieId\tkeywords\none\tx\n', r'own\.tsv:2: a field that should be a number'),
  ):
    file.write_text(content)
    with pytest.raises(clients.DataError, match=problem):
      _load(folder, str(file))
  with pytest.raises(clients.DataError, match=r'no\.tsv: cannot be read'):
    _load(folder, str(tmp_path / 'no.tsv'))


def test_missing_and_empty_files_are_named(folder):
  (folder / 'users.dat').write_text('')
  with pytest.raises(clients.DataError, match=r'users\.dat: is empty'):
    _load(folder)
  (folder / 'users.dat').unlink()
  with pytest.raises(clients.DataError, match=r'users\.dat: cannot be read'):
    _load(folder)


def test_the_real_ratings_are_read(real_data):
  data = movielens.load(str(real_data / 'ml-1m'), 'auto', seed=0)
  assert sum(map(len, _examples(data))) == 805_657
  assert sum(map(bool, data.train.texts)) > 3_000
  assert 0.5 < data.train.labels.mean() < 0.65
