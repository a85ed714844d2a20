#!/usr/bin/env python3
"""Makes corpus/: one safetensors file a rule of the format, each the smallest that shows it.

    make_corpus.py            writes the files
    make_corpus.py --check    the files are these, and the reference implementation judges as named

accept_: read here and by the reference. reject_: refused by both. stricter_: the reference reads it,
the reader of this project refuses it.
"""

import argparse
import os
import struct
import sys

import safetensors

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def file_of(header, data=b"", length=None):
    header = header.encode("utf-8", "surrogatepass") if isinstance(header, str) else header
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(name="a", dtype='"F32"', shape="[1]", offsets="[0,4]", more=""):
    return f'"{name}":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}{more}}}'


def one(data=b"\0\0\x80\x3f", **fields):
    return file_of("{" + entry(**fields) + "}", data)


A = entry()
FOUR, EIGHT = bytes(4), bytes(8)

ACCEPT = {
    "no_tensors": file_of("{}"),
    "one": one(),
    "scalar": one(shape="[]"),
    "zero_elements": one(b"", shape="[0,7]", offsets="[0,0]"),
    "zero_elements_between": file_of(
        "{" + A + "," + entry("z", shape="[0]", offsets="[4,4]") + "," + entry("b", offsets="[4,8]") + "}",
        EIGHT,
    ),
    "metadata": file_of('{"__metadata__":{"format":"pt"},' + A + "}", FOUR),
    "empty_metadata": file_of('{"__metadata__":{},' + A + "}", FOUR),
    "null_metadata": file_of('{"__metadata__":null,' + A + "}", FOUR),
    "metadata_only": file_of('{"__metadata__":{"format":"pt"}}'),
    "padded": file_of("{" + A + "}      ", FOUR),
    "leading_spaces": file_of("  {" + A + "}", FOUR),
    "unordered": file_of("{" + entry("b", offsets="[4,8]") + "," + A + "}", EIGHT),
    "unknown_field": one(more=',"x":[1,"y"]'),
    "odd_offset": file_of(
        "{" + entry("u", '"U8"', "[1]", "[0,1]") + "," + entry("f", offsets="[1,5]") + "}", bytes(5)
    ),
    "empty_name": one(name=""),
    "utf8_name": one(name="gewicht.\u00e4\U0001f600"),
    "escaped_name": one(name="\\ud83d\\ude00\\/"),
    "four_bits": one(bytes(3), dtype='"F4"', shape="[3,2]", offsets="[0,3]"),
    "six_bits": one(bytes(3), dtype='"F6_E2M3"', shape="[4]", offsets="[0,3]"),
    "every_type": file_of(
        "{"
        + ",".join(
            entry(t, f'"{t}"', "[8]", f"[{8 * i},{8 * i + 8}]")
            for i, t in enumerate(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"))
        )
        + "}",
        bytes(48),
    ),
    "nan_payload": one(b"\xff\xff\xff\xff"),
}

REJECT = {
    # the length in front
    "empty_file": b"",
    "seven_bytes": bytes(7),
    "length_zero": bytes(8),
    "length_beyond_the_file": file_of("{}", length=3),
    "length_beyond_the_limit": file_of("{}", length=100_000_001),
    "length_beyond_2_63": file_of("{}", length=1 << 63),
    "length_all_ones": file_of("{}", length=(1 << 64) - 1),
    "lfs_pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n",
    "pickle": b"PK\x03\x04" + bytes(60),
    # JSON
    "array": file_of("[]"),
    "string": file_of('"a"'),
    "byte_order_mark": file_of("\ufeff{}"),
    "nul_padding": file_of("{}\0\0"),
    "text_behind": file_of("{}x"),
    "two_objects": file_of("{}{}"),
    "cut": file_of("{" + A),
    "trailing_comma": file_of("{" + A + ",}", FOUR),
    "bad_utf8": file_of(b'{"\xff":{}}'),
    "overlong_utf8": file_of(b'{"\xc0\x80":{}}'),
    "surrogate_in_utf8": file_of(b'{"\xed\xa0\x80":{}}'),
    "lone_surrogate": one(name="\\ud800"),
    "control_character_raw": one(name="a\nb"),
    "infinity": one(more=',"x":Infinity'),
    # entries
    "no_dtype": file_of('{"a":{"shape":[1],"data_offsets":[0,4]}}', FOUR),
    "no_shape": file_of('{"a":{"dtype":"F32","data_offsets":[0,4]}}', FOUR),
    "no_offsets": file_of('{"a":{"dtype":"F32","shape":[1]}}', FOUR),
    "field_twice": one(more=',"dtype":"F32"'),
    "entry_null": file_of('{"a":null}'),
    "entry_number": file_of('{"a":1}'),
    "dtype_lower": one(dtype='"f32"'),
    "dtype_unknown": one(dtype='"F31"'),
    "dtype_number": one(dtype="7"),
    "shape_number": one(shape="1"),
    "shape_negative": one(shape="[-1]"),
    "shape_float": one(shape="[1.0]"),
    "shape_exponent": one(shape="[1e0]"),
    "shape_string": one(shape='["1"]'),
    "shape_nested": one(shape="[[1]]"),
    "shape_beyond_2_64": one(shape="[18446744073709551616]"),
    "shape_product_overflows": one(shape="[4294967296,4294967296,4]"),
    "offsets_one": one(offsets="[4]"),
    "offsets_three": one(offsets="[0,4,4]"),
    "offsets_negative": one(offsets="[-4,0]"),
    "offsets_float": one(offsets="[0,4.0]"),
    "offsets_backwards": one(offsets="[4,0]"),
    "metadata_number": file_of('{"__metadata__":{"x":1}}'),
    "metadata_list": file_of('{"__metadata__":[]}'),
    # layout
    "hole": file_of("{" + A + "," + entry("b", offsets="[8,12]") + "}", bytes(12)),
    "overlap": file_of("{" + A + "," + entry("b", offsets="[2,6]") + "}", bytes(6)),
    "starts_late": one(EIGHT, offsets="[4,8]"),
    "bytes_behind": one(bytes(5)),
    "data_cut": one(bytes(3)),
    "no_tensors_but_data": file_of("{}", FOUR),
    "size_differs": one(EIGHT, offsets="[0,8]"),
    "half_a_byte": one(bytes(1), dtype='"F4"', shape="[1]", offsets="[0,1]"),
    "duplicate_elsewhere": file_of("{" + A + "," + entry(offsets="[4,8]") + "}", EIGHT),
}

STRICTER = {
    "duplicate": file_of("{" + A + "," + A + "}", FOUR),
    "duplicate_metadata": file_of('{"__metadata__":{"x":"1","x":"2"},' + A + "}", FOUR),
    "nul_in_name": one(name="a\\u0000"),
    "escape_in_name": one(name="\\u001b[2J"),
    "del_in_name": one(name="\x7f"),
    "c1_in_name": one(name="\u009b"),
    "integer_beyond_2_48": one(b"", shape="[0,281474976710657]", offsets="[0,0]"),
    "zero_hides_an_overflow": one(b"", shape="[0,9223372036854775808,4]", offsets="[0,0]"),
    "deep": one(more=',"x":[[1]]'),
}


def corpus():
    kinds = {"accept": ACCEPT, "reject": REJECT, "stricter": STRICTER}
    return {
        f"{verdict}_{name}.safetensors": data
        for verdict, files in kinds.items()
        for name, data in files.items()
    }


def reference_accepts(data):
    try:
        safetensors.deserialize(data)
    except safetensors.SafetensorError:
        return False
    return True


def check():
    problems = []
    wanted = corpus()
    found = set(os.listdir(CORPUS))
    problems += [f"{name}: is in the folder, not in this script" for name in sorted(found - set(wanted))]
    for name, data in wanted.items():
        path = os.path.join(CORPUS, name)
        if not os.path.exists(path) or open(path, "rb").read() != data:
            problems.append(f"{name}: missing, or not the bytes of this script")
        if reference_accepts(data) == name.startswith("reject_"):
            problems.append(
                f"{name}: the reference {'accepts' if name.startswith('reject_') else 'refuses'} it"
            )
    print("\n".join(problems) or f"{len(wanted)} files agree with the reference")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return check()
    os.makedirs(CORPUS, exist_ok=True)
    for name, data in corpus().items():
        with open(os.path.join(CORPUS, name), "wb") as stream:
            stream.write(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
