"""Makes a release: pushes the images for several platforms and the chart to a registry, with SBOMs and provenance.

`make images` runs this program. It needs buildah and git, and takes the paths of crane and helm as options.
"""
