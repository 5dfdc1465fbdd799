"""Rewrites the files of this folder from the present output of the chart."""

from tests.charts.golden import VALUES, rendered, written
from tests.e2e.testbed.build import build_program
from tests.e2e.testbed.paths import Paths
from tests.e2e.testbed.progress import Progress

if __name__ == "__main__":
    helm = build_program("helm", Paths.from_environment(), Progress())
    for values in VALUES:
        written(values).write_text(rendered(helm, values))
