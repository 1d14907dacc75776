"""A repository as a table: columns, types, selections and plans of scans."""
