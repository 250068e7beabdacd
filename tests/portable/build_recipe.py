# SPDX-License-Identifier: BSD-3-Clause
"""build_recipe.py RECIPE CHANNEL: builds conda's recipe with the tool of rattler-build, runs its tests, and prints the
files of the package. In the folder CHANNEL empty packages stand in for those that the recipe requires."""
import pathlib
import sys
import tempfile

from rattler_build import Package, RattlerBuildError, Stage0Recipe, ToolConfiguration, VariantConfig
from rattler_build.progress import SimpleProgressCallback

# The compiler and the C library are those of Debian; variants.yaml asks for a version of the library.
VERSION = "2.28"
REQUIRED = ("gcc_linux-64", "gcc_linux-aarch64", "sysroot_linux-64", "sysroot_linux-aarch64", "make", "elfutils", "jansson", "uthash")


def build(recipe, channel, variants=None):
    """Returns the path of the package, whose tests have passed."""
    result, = Stage0Recipe.from_file(str(recipe)).run_build(
        variant_config=variants, tool_config=ToolConfiguration(test_strategy="native"), channels=[channel.as_uri()],
        output_dir=str(channel), progress_callback=SimpleProgressCallback())
    return result.packages[0]


def make_channel(channel):
    (channel / "noarch").mkdir(parents=True)
    (channel / "noarch/repodata.json").write_text('{"packages": {}, "packages.conda": {}}')
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder, "recipe.yaml")
        for name in REQUIRED:
            recipe.write_text(f"package: {{name: {name}, version: '{VERSION}'}}\nbuild: {{script: 'true'}}\n")
            build(recipe, channel)


def main(recipe, channel):
    channel = pathlib.Path(channel).resolve()
    make_channel(channel)
    recipe = pathlib.Path(recipe).resolve()
    variants = VariantConfig.from_file(str(recipe.with_name("variants.yaml")))
    try:
        package = Package.from_file(str(build(recipe, channel, variants)))
    except RattlerBuildError as error:
        sys.exit(f"build_recipe.py: {error}")
    for name in sorted(package.files):
        print("packed:", name)


main(*sys.argv[1:])
