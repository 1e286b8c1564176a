CREATE SCHEMA IF NOT EXISTS @schema;

-- One row: which format the schema has, how the rows are kept.
CREATE TABLE @schema.format (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	format  integer NOT NULL,
	storage text NOT NULL
);

CREATE TABLE @schema.workspace (
	id   integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	name text COLLATE "C" NOT NULL UNIQUE
);

-- The index of topics. The digest stands for a name that may be longer than an
-- index entry.
CREATE TABLE @schema.topic (
	id           integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	workspace_id integer NOT NULL REFERENCES @schema.workspace,
	digest       uuid NOT NULL,
	name         text COLLATE "C" NOT NULL,
	UNIQUE (workspace_id, digest)
);
CREATE INDEX topic_by_name ON @schema.topic (workspace_id, (left(name, 250)));

-- Positions are given in blocks, one block to a statement: nothing is given in
-- advance (CACHE 1), so a value stored after another was acknowledged has the
-- greater Position, whichever replica stores it.
CREATE SEQUENCE @schema.position_block AS bigint MINVALUE @block START @block INCREMENT @block CACHE 1;

-- What partitions of the table of rows there are; unused for a hypertable.
CREATE TABLE @schema.value_partition (
	name     text PRIMARY KEY,
	lower    timestamptz NOT NULL UNIQUE,
	upper    timestamptz NOT NULL,
	dropping boolean NOT NULL DEFAULT false,
	CHECK (lower < upper)
);

-- What Check writes.
CREATE TABLE @schema.probe (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	written timestamptz NOT NULL
);
INSERT INTO @schema.probe (written) VALUES (now());
