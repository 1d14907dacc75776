"""`frazil doctor`: whether all that is needed is there, and what to do if not; `frazil spark`."""

from typing import Annotated

import typer

from frazil.cli.options import AsJson


def doctor(
    repo: Annotated[
        str | None,
        typer.Argument(metavar="REPO", help="Also check whether this location can be reached."),
    ] = None,
    *,
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Also start Spark and run a query, which takes some seconds."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check Python, packages, Java, Spark and storage; say how to put right what is wrong.

    Exits with 1 if something is wrong; what is only not installed is no fault.
    """
    import os

    from frazil.cli.views.health_view import checks, print_checks

    found = list(checks(os.environ, repo=repo, start_spark=spark))
    print_checks(found, as_json=as_json)
    if any(each.state == "wrong" for each in found):
        raise typer.Exit(1)


# `frazil spark`: the jar and the settings for a Spark that frazil does not start.

spark_app = typer.Typer(
    help="Print the jar and settings for a Spark of yours: spark-sql, spark-submit, servers.",
    no_args_is_help=True,
)
SparkHome = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="The Spark that will run; by default SPARK_HOME, or the one of the package pyspark.",
    ),
]
CATALOGS = ("frazil", "icechunk")


@spark_app.command("jar")
def jar(*, spark_home: SparkHome = None, as_json: AsJson = False) -> None:
    """Print the path of frazil's jar; it is compiled first if need be, which takes no JDK."""
    from frazil.cli.output import print_json

    found = _find_jar(spark_home)
    if as_json:
        print_json({"jar": found})
    else:
        print(found)


@spark_app.command("conf")
def conf(*, spark_home: SparkHome = None, as_json: AsJson = False) -> None:
    """Print the options of spark-sql, spark-submit and such that bring the tables and catalogs.

    Spark must also find a Python that has frazil: the environment variable PYSPARK_PYTHON.
    """
    from frazil.cli.output import print_json

    settings = {"spark.jars": _find_jar(spark_home)}
    settings |= {f"spark.sql.catalog.{name}": "frazil.spark.Catalog" for name in CATALOGS}
    if as_json:
        print_json(settings)
    else:
        print(" ".join(f"--conf {key}={value}" for key, value in settings.items()))


def _find_jar(spark_home: str | None) -> str:
    import os

    from frazil.spark.native.jar import find_jar

    return str(find_jar(os.environ, spark_home=spark_home))
