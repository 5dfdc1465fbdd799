"""Makes a release: images for several platforms, and the chart, in a registry, each with what is to be said of it.

`make images` runs it. It wants buildah and git, and is told where crane and helm are.
"""
