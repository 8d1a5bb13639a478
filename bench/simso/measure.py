# SPDX-License-Identifier: GPL-2.0-only
"""Runs SimSo on a task set and times it.

Standard input: {"scheduler", "cpus", "duration_ns", "tasks": [{"period_ns", "work_ns"}]}; standard output: {"jobs", "missed", "cpu_s",
"version"}. One cycle of SimSo is 1 ns here; its overheads are all zero. Only the CPU time of Model.run_model() counts.
"""
import contextlib
import importlib.metadata
import json
import os
import sys
import time

from simso.configuration import Configuration
from simso.core import Model

MS = 1_000_000

job = json.load(sys.stdin)
configuration = Configuration()
configuration.cycles_per_ms = MS
configuration.duration = job["duration_ns"]
configuration.scheduler_info.clas = "simso.schedulers." + job["scheduler"]
for n, task in enumerate(job["tasks"], 1):
    configuration.add_task(
        name=f"T{n}",
        identifier=n,
        period=task["period_ns"] / MS,
        activation_date=0,
        wcet=task["work_ns"] / MS,
        deadline=task["period_ns"] / MS,
    )
for n in range(1, job["cpus"] + 1):
    configuration.add_processor(name=f"P{n}", identifier=n)
configuration.check_all()

# SimSo's EDF prints each of its decisions.
with open(os.devnull, "w") as devnull, contextlib.redirect_stdout(devnull):
    model = Model(configuration)
    start = time.process_time()
    model.run_model()
    cpu = time.process_time() - start

done = [j for task in model.results.tasks.values() for j in task.jobs if j.end_date]
json.dump(
    {
        "jobs": len(done),
        "missed": sum(1 for j in done if j.exceeded_deadline),
        "cpu_s": cpu,
        "version": importlib.metadata.version("simso"),
    },
    sys.stdout,
)
