"""The planted faults, as far as they can be tried without a GPU."""
from concurrent.futures import ThreadPoolExecutor

import faults
from conftest import judge


def test_faults(any_lesson, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        lines, wrong = faults.tried(any_lesson, tmp_path, pool)
    judge(any_lesson, wrong)
