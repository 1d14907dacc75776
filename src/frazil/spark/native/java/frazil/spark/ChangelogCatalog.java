package frazil.spark;

import org.apache.spark.sql.connector.catalog.TableCatalog;

/** What a catalog has beside tables since Spark 4.2, of which this is without: changes. */
abstract class ChangelogCatalog implements TableCatalog {}
