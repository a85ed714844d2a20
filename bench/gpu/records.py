"""The CSV files of the comparisons: what a line says of the machine, and the columns of measurements."""

import csv
import datetime
import subprocess

import torch
import triton

HEADER = ["section", "memory", "tokens", "hidden", "side", "data", "us", "bytes", "tb_per_s", "base", "time_over_base"]


def driver_and_clock():
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    except (OSError, subprocess.CalledProcessError):
        return "unknown", "unknown"


def machine(library):
    """Columns that stand before each line of the CSV files, by title."""
    driver, clock = driver_and_clock()
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "version": library.version(), "gpu": torch.cuda.get_device_name(), "driver": driver,
            "sm_clock_mhz": clock, "cuda": torch.version.cuda, "torch": torch.__version__,
            "triton": triton.__version__}


def write_csv(path, about, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*about, *header])
        writer.writerows([*about.values(), *row] for row in rows)
