"""A Spark session for statements that may only read the tables of one catalog.

Three layers:

    the session     has no function that calls Java methods or opens files, reads no files by
                    their paths (csv.`/etc/passwd`), and does not replace ${env:NAME} by values
    the statement   is parsed by Spark: each node of its plan must be in _PLANS or _STATEMENTS,
                    and names with several parts begin with one of the tables
    the query       as Spark has analysed it, before it runs: all its relations are of the catalog,
                    also those in places of the parsed plan that are not looked into

What is not listed is refused: a version of Spark with a new statement or function does not open a
door.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.errors import InvalidInputError
from frazil.spark.io.sql import TableSpec, current_catalog, split_explain

REFUSED = "not-read-only"  # kind of the error
_SETTINGS = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.session.timeZone": "UTC",
}
# Groups in Spark's documentation of its functions. Others open files (xml: a schema by its path,
# protobuf: a descriptor by its path) or are of no use here.
_FUNCTION_GROUPS = {
    "agg_funcs", "array_funcs", "bitwise_funcs", "collection_funcs", "conditional_funcs",
    "conversion_funcs", "csv_funcs", "datetime_funcs", "generator_funcs", "hash_funcs",
    "json_funcs", "lambda_funcs", "map_funcs", "math_funcs", "predicate_funcs", "sketch_funcs",
    "st_funcs", "string_funcs", "struct_funcs", "url_funcs", "variant_funcs", "vector_funcs",
    "window_funcs",
}  # fmt: skip
_FUNCTIONS = {
    "assert_true", "current_catalog", "current_database", "current_schema",
    "monotonically_increasing_id", "raise_error", "typeof", "uuid", "version",
}  # fmt: skip
_TABLE_FUNCTIONS = {
    "collations", "explode", "explode_outer", "inline", "inline_outer", "json_tuple",
    "posexplode", "posexplode_outer", "range", "sql_keywords", "stack", "variant_explode",
    "variant_explode_outer",
}  # fmt: skip
_RELATIONS = {"UnresolvedRelation", "UnresolvedTableOrView"}
# Nodes of queries, before and after analysis.
_PLANS = _RELATIONS | {
    "Aggregate", "CTERelationDef", "CTERelationRef", "DataSourceV2Relation", "Deduplicate",
    "Distinct", "Except", "Expand", "Filter", "Generate", "GlobalLimit", "Intersect", "Join",
    "LateralJoin", "LocalLimit", "LocalRelation", "Offset", "OneRowRelation", "PipeOperator",
    "Pivot", "Project", "Range", "RelationTimeTravel", "Repartition", "RepartitionByExpression",
    "ResolvedHint", "Sample", "Sort", "SubqueryAlias", "Union", "UnionLoop", "UnionLoopRef",
    "Unpivot", "UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable",
    "UnresolvedQualify", "UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases",
    "UnresolvedTableValuedFunction", "UnresolvedWith", "Window", "WithCTE",
    "WithWindowDefinition",
}  # fmt: skip
_STATEMENTS = {"DescribeRelation", "DescribeColumn", "ShowTables", "ShowColumns"}
_CURRENT = "CurrentNamespace$"  # what SHOW TABLES lists
_DESCRIBE_QUERY = "DescribeQueryCommand"
_REPLACING_STAR = "UnresolvedStarExceptOrReplace"


def read_only_session(spark: SparkSession) -> SparkSession:
    """A new session of the same Spark, without views, and with no function that does harm."""
    own = spark.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    state: Any = own._jsparkSession.sessionState()  # noqa: SLF001 -- Python has no parser
    _keep(state.functionRegistry(), _is_harmless)
    _keep(state.tableFunctionRegistry(), lambda name, _: name in _TABLE_FUNCTIONS)
    return own


def _is_harmless(name: str, group: str) -> bool:
    return group in _FUNCTION_GROUPS or name in _FUNCTIONS


def _keep(registry: Any, is_kept: Callable[[str, str], bool]) -> None:
    for function in _items(registry.listFunction()):
        name, info = str(function.funcName()), registry.lookupFunction(function)
        group = str(info.get().getGroup()) if info.isDefined() else ""
        if not is_kept(name, group):
            registry.dropFunction(function)


def read_only_sql(
    spark: SparkSession, statement: str, tables: Mapping[str, TableSpec]
) -> DataFrame:
    """The result of a statement in a session of `read_only_session`; see `sql` for the tables.

    Raises InvalidInputError for what is neither a query nor EXPLAIN, DESCRIBE, SHOW TABLES or SHOW
    COLUMNS, and for what else it would read. Errors of Spark's parser are raised as such.
    """
    is_query = _require_statement(spark, statement, {name.casefold() for name in tables})
    with current_catalog(spark, tables, statement) as catalog:
        frame = spark.sql(statement)
        if is_query:
            _require_own_tables(frame, catalog)
        return frame


def _require_statement(spark: SparkSession, statement: str, names: Collection[str]) -> bool:
    """True for a query, False for a statement about one or about tables."""
    parser: Any = spark._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 -- as above
    explain, query = split_explain(statement)
    plan = parser.parsePlan(query if explain else statement)
    if not explain and _kind(plan) in _STATEMENTS:
        for child in _items(plan.children()):
            if _kind(child) != _CURRENT:
                _require_plan(child, names)
        return False
    is_described = not explain and _kind(plan) == _DESCRIBE_QUERY
    _require_plan(plan.plan() if is_described else plan, names)
    return not explain and not is_described


def _require_own_tables(frame: DataFrame, catalog: str) -> None:
    analysed: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    for node in _walk(analysed):
        _require_known(node)
        if _kind(node) == "DataSourceV2Relation":
            owner = node.catalog()
            if owner.isEmpty() or owner.get().name() != catalog:
                raise _refusal("only tables of this repository can be read")
            _require_no_options(node)


def _require_plan(plan: Any, names: Collection[str]) -> None:
    for node in _walk(plan):
        _require_known(node)
        if _kind(node) not in _RELATIONS:
            continue
        parts = [str(part) for part in _items(node.multipartIdentifier())]
        if len(parts) > 1 and parts[0].casefold() not in names:
            raise _refusal(f"there is no table {'.'.join(parts)!r} in this repository")
        if _kind(node) == "UnresolvedRelation":
            _require_no_options(node)


def _require_no_options(relation: Any) -> None:
    if not relation.options().isEmpty():
        raise _refusal("options of tables (WITH) are not allowed here")


def _require_known(node: Any) -> None:
    if _kind(node) not in _PLANS or not _is_of_spark(node):
        raise _refusal(
            "only queries can be run here, and EXPLAIN, DESCRIBE, SHOW TABLES and SHOW COLUMNS;"
            f" this statement has {_kind(node).removeprefix('Unresolved')}"
        )


def _is_of_spark(node: Any) -> bool:
    return str(node.getClass().getName()).startswith("org.apache.spark.sql.")


def _refusal(message: str) -> InvalidInputError:
    return InvalidInputError(message, kind=REFUSED)


def _walk(plan: Any) -> Iterator[Any]:
    """All plans in a plan: those below it, of its subqueries, and of WITH."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(_items(node.children()))
        waiting.extend(_items(node.innerChildren()))
        if _kind(node) == "RelationTimeTravel":
            waiting.append(node.relation())
        if _kind(node) == "Project":
            waiting.extend(_replacement_subqueries(node))


def _replacement_subqueries(project: Any) -> Iterator[Any]:
    """Subqueries in values of `|> SET`, which Spark's parser hides in the star of a projection.

    Before Spark 4.3 the analysed plan does not show their options if the table was also read
    without: the options have no effect then, and would not be refused.
    """
    for star in _items(project.projectList()):
        if _kind(star) == _REPLACING_STAR and star.replacements().isDefined():
            values = project.copy(star.replacements().get(), project.child())
            yield from _items(values.innerChildren())


def _items(sequence: Any) -> Iterator[Any]:
    """Elements of a Seq of Scala."""
    return (sequence.apply(index) for index in range(sequence.size()))


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
