"""What the programs that read with one reader share: the stored tensors, and a line a folder.

A line is `FOLDER<tab>RESULT`. RESULT is what the reader makes of the folder, the error with which it
refuses it, or, behind WRONG, how what it has read differs from what is stored.
"""

import glob
import os

from safetensors import safe_open

WRONG = "WRONG: "


class Wrong(Exception):
    """The reader took the folder and has something else than what is stored."""


def stored(folder):
    """(name, tensor) of every tensor in the folder."""
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():
                yield name, file.get_tensor(name)


def read_each(folders, read):
    for folder in folders:
        print(folder, result_of(read, folder), sep="\t", flush=True)


def result_of(read, folder):
    try:
        return read(folder)
    except Wrong as wrong:
        return WRONG + str(wrong)
    except Exception as error:  # whatever a reader throws is the result
        said = str(error).strip().splitlines()
        return f"{type(error).__name__}: {said[0]}" if said else refused_without_words(error)


def refused_without_words(error):
    """An assertion without a message: where it stands, by its function."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return f"{type(error).__name__} in {trace.tb_frame.f_code.co_qualname}"
