-- Definitions of tables in Dataverse as a schema file of dvsim: test/dvsim/README.md describes the format.
--
-- Definitions are requested as IMPORT FOREIGN SCHEMA does it (src/dataverse/metadata_request.c): RetrieveMetadataChanges
-- for fifty tables at a time, or, where the service refuses that, one request for each table and each type of column.
-- Either way, a definition is an EntityMetadata whose Attributes have the properties of their types.

-- Percent-encodes a value of a query option.
CREATE FUNCTION dataverse_private.export_encoded(value text)
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT string_agg(CASE WHEN t.c ~ '[A-Za-z0-9._~-]' COLLATE "C" THEN t.c
                         ELSE upper(regexp_replace(encode(convert_to(t.c, 'UTF8'), 'hex'), '(..)', '%\1', 'g')) END, '' ORDER BY t.i)
  FROM regexp_split_to_table($1, '') WITH ORDINALITY AS t (c, i)
$$;

COMMENT ON FUNCTION dataverse_private.export_encoded(text) IS
  'a text as the value of a query option; for dataverse.export_schema()';

-- The path of a request for the definitions of some tables.  Without "whole", they have only the columns of the id and
-- of the name, and neither relationships nor keys.
CREATE FUNCTION dataverse_private.export_path(tables text[], whole boolean, languages integer[])
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  WITH condition (on_table, json) AS (
    SELECT c.on_table, json_build_object('ConditionOperator', 'Equals', 'PropertyName', c.property,
                                         'Value', json_build_object('Type', c.type, 'Value', c.value))
    FROM (SELECT true, 'LogicalName', 'System.String', t FROM unnest($1) AS t
          UNION ALL SELECT false, p, 'System.Boolean', 'true' FROM unnest('{IsPrimaryId,IsPrimaryName}'::text[]) AS p) AS c (on_table, property, type, value)),
  criteria AS (
    SELECT c.on_table, json_build_object('FilterOperator', 'Or', 'Conditions', json_agg(c.json)) AS json FROM condition AS c GROUP BY c.on_table),
  properties (kind, json) AS (
    SELECT p.kind, json_build_object('AllProperties', false, 'PropertyNames', string_to_array(p.names, ' '))
    FROM (VALUES
      ('table', 'LogicalName SchemaName EntitySetName PrimaryIdAttribute PrimaryNameAttribute TableType IsIntersect OwnershipType ObjectTypeCode '
       'IsCustomEntity IsActivity ChangeTrackingEnabled IsOptimisticConcurrencyEnabled DisplayName DisplayCollectionName Attributes'
       || CASE WHEN $2 THEN ' ManyToOneRelationships Keys' ELSE '' END),
      ('column', 'LogicalName SchemaName AttributeTypeName AttributeOf ColumnNumber IsLogical IsCustomAttribute IsValidForCreate IsValidForRead '
       'IsValidForUpdate IsValidODataAttribute SourceType AutoNumberFormat RequiredLevel DisplayName MaxLength MaxSizeInKB Precision MinValue MaxValue '
       'Format FormatName DateTimeBehavior DefaultFormValue DefaultValue CalculationOf Targets OptionSet'),
      ('relationship', 'SchemaName ReferencedEntity ReferencingAttribute ReferencingEntityNavigationPropertyName '
       'ReferencedEntityNavigationPropertyName CascadeConfiguration'),
      ('key', 'SchemaName KeyAttributes EntityKeyIndexStatus DisplayName')) AS p (kind, names))
  SELECT 'RetrieveMetadataChanges(Query=@p1)?@p1=' || dataverse_private.export_encoded(json_strip_nulls(json_build_object(
    'Criteria', (SELECT c.json FROM criteria AS c WHERE c.on_table),
    'Properties', (SELECT p.json FROM properties AS p WHERE p.kind = 'table'),
    'AttributeQuery', json_build_object(
      'Criteria', (SELECT c.json FROM criteria AS c WHERE NOT c.on_table AND NOT $2),
      'Properties', (SELECT p.json FROM properties AS p WHERE p.kind = 'column')),
    'RelationshipQuery', json_build_object('Properties', (SELECT p.json FROM properties AS p WHERE p.kind = 'relationship')),
    'KeyQuery', json_build_object('Properties', (SELECT p.json FROM properties AS p WHERE p.kind = 'key')),
    'LabelQuery', json_build_object('FilterLanguages', $3, 'MissingLabelBehavior', 0)))::text)
$$;

COMMENT ON FUNCTION dataverse_private.export_path(text[], boolean, integer[]) IS
  'the path of a request for definitions; for dataverse.export_schema()';

-- The same definition by other requests, for environments that refuse that one.
CREATE FUNCTION dataverse_private.export_plainly(server name, table_name text, whole boolean, languages integer[])
RETURNS jsonb
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  path CONSTANT text := format('EntityDefinitions(LogicalName=''%s'')', dataverse_private.export_encoded(replace(table_name, '''', '''''')));
  -- such a request can name only one language
  labels CONSTANT text := CASE WHEN cardinality(languages) = 1 THEN '&LabelLanguages=' || languages[1] ELSE '' END;
  definition CONSTANT jsonb := dataverse.request(server, 'GET', path ||
    '?$select=LogicalName,SchemaName,EntitySetName,PrimaryIdAttribute,PrimaryNameAttribute,TableType,IsIntersect,OwnershipType,ObjectTypeCode,'
    'IsCustomEntity,IsActivity,ChangeTrackingEnabled,IsOptimisticConcurrencyEnabled,DisplayName,DisplayCollectionName'
    '&$expand=Attributes($select=LogicalName,SchemaName,AttributeTypeName,AttributeOf,ColumnNumber,IsLogical,IsCustomAttribute,IsValidForCreate,'
    'IsValidForRead,IsValidForUpdate,IsValidODataAttribute,SourceType,AutoNumberFormat,RequiredLevel,DisplayName)' ||
    CASE WHEN whole THEN ',ManyToOneRelationships($select=SchemaName,ReferencedEntity,ReferencingAttribute,ReferencingEntityNavigationPropertyName,'
      'ReferencedEntityNavigationPropertyName,CascadeConfiguration),Keys($select=SchemaName,KeyAttributes,EntityKeyIndexStatus,DisplayName)' ELSE '' END || labels);
BEGIN
  -- the properties that only some types have are requested as those of columns of these types
  RETURN jsonb_set(definition, '{Attributes}', (
    WITH attribute (json, type) AS MATERIALIZED (
      SELECT a, regexp_replace(a #>> '{AttributeTypeName,Value}', '^(Customer|Owner)Type$', 'LookupType')
      FROM jsonb_array_elements(definition -> 'Attributes') AS a
      WHERE whole OR a -> 'LogicalName' IN (definition -> 'PrimaryIdAttribute', definition -> 'PrimaryNameAttribute')),
    type (name, properties) AS MATERIALIZED (
      SELECT t.name, t.properties
      FROM (VALUES
        ('String', 'MaxLength,FormatName'), ('Memo', 'MaxLength,FormatName'), ('Integer', 'MinValue,MaxValue,Format'), ('BigInt', 'MinValue,MaxValue'),
        ('Decimal', 'MinValue,MaxValue,Precision'), ('Double', 'MinValue,MaxValue,Precision'), ('Money', 'MinValue,MaxValue,Precision,CalculationOf'),
        ('DateTime', 'Format,DateTimeBehavior'), ('Lookup', 'Targets'), ('Image', 'MaxSizeInKB'), ('File', 'MaxSizeInKB'),
        ('Boolean', 'DefaultValue&$expand=OptionSet,GlobalOptionSet'), ('Picklist', 'DefaultFormValue&$expand=OptionSet,GlobalOptionSet'),
        ('MultiSelectPicklist', 'DefaultFormValue&$expand=OptionSet,GlobalOptionSet'),
        ('State', 'SchemaName&$expand=OptionSet'), ('Status', 'SchemaName&$expand=OptionSet')) AS t (name, properties)
      WHERE t.name || 'Type' IN (SELECT a.type FROM attribute AS a)),
    typed (json) AS (
      SELECT c
      FROM type AS t,
        dataverse.request(server, 'GET', format('%s/Attributes/Microsoft.Dynamics.CRM.%sAttributeMetadata?$select=LogicalName,%s%s',
                                                path, t.name, t.properties, labels)) AS r (answer),
        jsonb_array_elements(r.answer -> 'value') AS c)
    SELECT jsonb_agg(a.json || coalesce(t.json, '{}'))
    FROM attribute AS a LEFT JOIN typed AS t ON t.json -> 'LogicalName' = a.json -> 'LogicalName'));
END
$$;

COMMENT ON FUNCTION dataverse_private.export_plainly(name, text, boolean, integer[]) IS
  'the definition of a table without RetrieveMetadataChanges; for dataverse.export_schema()';

-- Tables that are not available in the Web API have no definition.  Members that are null are left out.
CREATE FUNCTION dataverse_private.export_definitions(server name, tables text[], whole boolean, languages integer[])
RETURNS SETOF jsonb
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  plainly boolean := false;
  part text[];
  table_name text;
BEGIN
  FOR i IN 1 .. cardinality(tables) BY 50 LOOP
    part := tables[i : i + 49];
    IF NOT plainly THEN
      BEGIN
        RETURN QUERY
          SELECT jsonb_strip_nulls(d)
          FROM jsonb_array_elements(dataverse.request(server, 'GET', dataverse_private.export_path(part, whole, languages)) -> 'EntityMetadata') AS d
          WHERE d ->> 'EntitySetName' <> '';
      EXCEPTION
        -- statuses 400, 404, and 501
        WHEN fdw_error OR fdw_table_not_found OR feature_not_supported THEN
          plainly := true;
      END;
    END IF;
    IF plainly THEN
      FOREACH table_name IN ARRAY part LOOP
        BEGIN
          RETURN QUERY
            SELECT jsonb_strip_nulls(d) FROM dataverse_private.export_plainly(server, table_name, whole, languages) AS d WHERE d ->> 'EntitySetName' <> '';
        EXCEPTION
          WHEN fdw_table_not_found THEN NULL;
        END;
      END LOOP;
    END IF;
  END LOOP;
END
$$;

COMMENT ON FUNCTION dataverse_private.export_definitions(name, text[], boolean, integer[]) IS
  'the definitions of tables; for dataverse.export_schema()';

-- Which tables offer CreateMultiple and UpdateMultiple, as {"account": ["CreateMultiple", ...]}; null if that is not told.
CREATE FUNCTION dataverse_private.export_messages(server name, tables text[])
RETURNS jsonb
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  messages jsonb := '{}';
  condition text;
BEGIN
  FOR i IN 1 .. cardinality(tables) BY 50 LOOP
    condition := (SELECT string_agg('primaryobjecttypecode eq ' || quote_literal(t), ' or ') FROM unnest(tables[i : i + 49]) AS t);
    messages := messages || coalesce((
      SELECT jsonb_object_agg(m.table_name, m.names)
      FROM (SELECT f ->> 'primaryobjecttypecode', jsonb_agg(f #> '{sdkmessageid,name}')
            FROM jsonb_array_elements(dataverse.request(server, 'GET', 'sdkmessagefilters?$select=primaryobjecttypecode&$expand=sdkmessageid($select=name)&$filter='
              || dataverse_private.export_encoded('(sdkmessageid/name eq ''CreateMultiple'' or sdkmessageid/name eq ''UpdateMultiple'') and (' || condition || ')'))
              -> 'value') AS f
            GROUP BY 1) AS m (table_name, names)), '{}');
  END LOOP;
  RETURN messages;
EXCEPTION
  WHEN insufficient_privilege THEN
    RETURN NULL;
END
$$;

COMMENT ON FUNCTION dataverse_private.export_messages(name, text[]) IS
  'which tables offer bulk messages; for dataverse.export_schema()';

-- Returns a label in the language of the user if there is one, else in any language.
CREATE FUNCTION dataverse_private.export_label(label jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce(nullif($1 #>> '{UserLocalizedLabel,Label}', ''), nullif($1 #>> '{LocalizedLabels,0,Label}', ''))
$$;

COMMENT ON FUNCTION dataverse_private.export_label(jsonb) IS
  'the text of a label; for dataverse.export_schema()';

-- Returns the schema name, which is the logical name but for its case.
CREATE FUNCTION dataverse_private.export_name(definition jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN lower($1 ->> 'SchemaName') = $1 ->> 'LogicalName' THEN $1 ->> 'SchemaName' ELSE $1 ->> 'LogicalName' END
$$;

COMMENT ON FUNCTION dataverse_private.export_name(jsonb) IS
  'the name of a table or a column; for dataverse.export_schema()';

-- Returns null for types that a schema file does not have, and for states, which belong to the table.
CREATE FUNCTION dataverse_private.export_type(attribute jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT t.word
  FROM (VALUES
    ('Uniqueidentifier', 'uuid'), ('String', 'string'), ('Memo', 'memo'), ('Integer', 'integer'), ('BigInt', 'bigint'), ('Decimal', 'decimal'),
    ('Money', 'money'), ('Double', 'double'), ('Boolean', 'boolean'), ('Picklist', 'picklist'), ('MultiSelectPicklist', 'multiselect'),
    ('DateTime', 'datetime'), ('Lookup', 'lookup'), ('Customer', 'customer'), ('Owner', 'owner'), ('PartyList', 'partylist'),
    ('EntityName', 'entityname'), ('Image', 'image'), ('File', 'file'), ('ManagedProperty', 'managed'), ('Virtual', 'virtual')) AS t (type, word)
  WHERE t.type || 'Type' = $1 #>> '{AttributeTypeName,Value}'
$$;

COMMENT ON FUNCTION dataverse_private.export_type(jsonb) IS
  'the type of a column; for dataverse.export_schema()';

-- [[1, "Red"], ...]
CREATE FUNCTION dataverse_private.export_options(option_set jsonb)
RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_array(o.json -> 'Value', coalesce(dataverse_private.export_label(o.json -> 'Label'), o.json ->> 'Value'))
                            ORDER BY o.i), '[]')
  FROM jsonb_array_elements(coalesce($1 -> 'Options', jsonb_build_array($1 -> 'FalseOption', $1 -> 'TrueOption'))) WITH ORDINALITY AS o (json, i)
  WHERE o.json ? 'Value'
$$;

COMMENT ON FUNCTION dataverse_private.export_options(jsonb) IS
  'the options of a choice; for dataverse.export_schema()';

-- Returns the choice of a column, its own or a global one.
CREATE FUNCTION dataverse_private.export_option_set(attribute jsonb)
RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT coalesce($1 -> 'OptionSet', $1 -> 'GlobalOptionSet', '{}')
  WHERE dataverse_private.export_type($1) IN ('boolean', 'picklist', 'multiselect')
$$;

COMMENT ON FUNCTION dataverse_private.export_option_set(jsonb) IS
  'the choice of a column; for dataverse.export_schema()';

-- [[0, "Active", [[1, "Active"], ...]], ...], the default status of each state first; false without states.
CREATE FUNCTION dataverse_private.export_states(attributes jsonb)
RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  WITH option (type, i, json, value, label) AS (
    SELECT a #>> '{AttributeTypeName,Value}', o.i, o.json, o.json -> 'Value', coalesce(dataverse_private.export_label(o.json -> 'Label'), o.json ->> 'Value')
    FROM jsonb_array_elements($1) AS a, jsonb_array_elements(a #> '{OptionSet,Options}') WITH ORDINALITY AS o (json, i)
    WHERE a #>> '{AttributeTypeName,Value}' IN ('StateType', 'StatusType'))
  SELECT coalesce(jsonb_agg(jsonb_build_array(state.value, state.label, statuses.json) ORDER BY state.i), 'false')
  FROM option AS state,
    LATERAL (
      SELECT jsonb_agg(jsonb_build_array(status.value, status.label) ORDER BY status.value = state.json -> 'DefaultStatus' DESC, status.i)
      FROM option AS status WHERE status.type = 'StatusType' AND status.json -> 'State' = state.value) AS statuses (json)
  WHERE state.type = 'StateType' AND statuses.json IS NOT NULL
$$;

COMMENT ON FUNCTION dataverse_private.export_states(jsonb) IS
  'the states of a table and their statuses; for dataverse.export_schema()';

-- Returns the targets of a lookup that the file has.
CREATE FUNCTION dataverse_private.export_targets(attribute jsonb, relationships jsonb, tables text[])
RETURNS jsonb
LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT jsonb_agg(jsonb_build_object(
    'table', t.name,
    'navigation', r.json ->> 'ReferencingEntityNavigationPropertyName',
    'relationship', r.json ->> 'SchemaName',
    'collection', nullif(r.json ->> 'ReferencedEntityNavigationPropertyName', ''),
    'delete', CASE WHEN r.json #>> '{CascadeConfiguration,Delete}' IN ('Cascade', 'Active', 'UserOwned') THEN 'cascade'
                   WHEN r.json #>> '{CascadeConfiguration,Delete}' = 'Restrict' THEN 'restrict' ELSE 'remove_link' END) ORDER BY t.i)
  FROM jsonb_array_elements_text($1 -> 'Targets') WITH ORDINALITY AS t (name, i)
    LEFT JOIN LATERAL (
      SELECT r FROM jsonb_array_elements($2) AS r
      WHERE r -> 'ReferencingAttribute' = $1 -> 'LogicalName' AND r ->> 'ReferencedEntity' = t.name
      ORDER BY r ->> 'SchemaName' COLLATE "C" LIMIT 1) AS r (json) ON true
  WHERE t.name = ANY ($3)
$$;

COMMENT ON FUNCTION dataverse_private.export_targets(jsonb, jsonb, text[]) IS
  'the targets of a lookup; for dataverse.export_schema()';

-- Returns null for a lookup without targets.
CREATE FUNCTION dataverse_private.export_column(attribute jsonb, relationships jsonb, tables text[])
RETURNS jsonb
LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'name', dataverse_private.export_name($1),
    'type', c.type,
    'label', dataverse_private.export_label($1 -> 'DisplayName'),
    'length', coalesce($1 ->> 'MaxLength', $1 ->> 'MaxSizeInKB')::integer,
    'precision', ($1 ->> 'Precision')::integer,
    'min', $1 ->> 'MinValue',
    'max', $1 ->> 'MaxValue',
    'format', CASE WHEN c.type IN ('string', 'memo', 'integer', 'datetime') THEN coalesce($1 #>> '{FormatName,Value}', $1 ->> 'Format') END,
    'behavior', $1 #>> '{DateTimeBehavior,Value}',
    'required', substring($1 #>> '{RequiredLevel,Value}' FROM 'ApplicationRequired|SystemRequired'),
    'default', CASE WHEN c.type = 'boolean' THEN ($1 ->> 'DefaultValue')::boolean::integer ELSE nullif(($1 ->> 'DefaultFormValue')::integer, -1) END,
    'option_set', CASE WHEN c.is_global THEN c.option_set ->> 'Name' END,
    'options', CASE WHEN NOT c.is_global THEN dataverse_private.export_options(c.option_set) END,
    'targets', c.targets,
    'autonumber', nullif($1 ->> 'AutoNumberFormat', ''),
    'source_type', nullif(($1 ->> 'SourceType')::integer, 0),
    'create', CASE WHEN c.in_body THEN ($1 ->> 'IsValidForCreate')::boolean AND NOT c.is_computed END,
    'update', CASE WHEN c.in_body THEN ($1 ->> 'IsValidForUpdate')::boolean AND NOT c.is_computed END,
    'read', ($1 ->> 'IsValidForRead')::boolean,
    'select', CASE WHEN NOT ($1 ->> 'IsValidODataAttribute')::boolean THEN false END,
    'logical', ($1 ->> 'IsLogical')::boolean,
    'custom', ($1 ->> 'IsCustomAttribute')::boolean,
    'attribute_of', $1 ->> 'AttributeOf'))
  FROM (
    SELECT t.type, s.option_set, coalesce((s.option_set ->> 'IsGlobal')::boolean, false), t.type NOT IN ('file', 'managed'),
           coalesce(($1 ->> 'SourceType')::integer, 0) <> 0, dataverse_private.export_targets($1, $2, $3)
    FROM dataverse_private.export_type($1) AS t (type), dataverse_private.export_option_set($1) AS s (option_set))
    AS c (type, option_set, is_global, in_body, is_computed, targets)
  WHERE c.type NOT IN ('lookup', 'customer', 'owner') OR c.targets IS NOT NULL
$$;

COMMENT ON FUNCTION dataverse_private.export_column(jsonb, jsonb, text[]) IS
  'a column; for dataverse.export_schema()';

-- Returns the names of the columns that dvsim adds by itself, because of the kind of the table
-- (test/dvsim/store/schema_system.c) or because of other columns, such as "revenue_base" (schema_column.c).
CREATE FUNCTION dataverse_private.export_added(definition jsonb, type text, is_bare boolean, is_system boolean)
RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  WITH attribute (json, name, type) AS (
    SELECT a, a ->> 'LogicalName', a #>> '{AttributeTypeName,Value}' FROM jsonb_array_elements($1 -> 'Attributes') AS a)
  SELECT array_agg(n)
  FROM (
    SELECT unnest(k.names)
    FROM (VALUES
      (true, ARRAY[$1 ->> 'PrimaryIdAttribute']),
      ($2 <> 'virtual', '{versionnumber}'),
      ($2 = 'elastic', '{partitionid,ttlinseconds}'),
      (NOT $3, '{createdon,createdby,createdonbehalfby,modifiedon,modifiedby,modifiedonbehalfby}'),
      (NOT $3 AND NOT $4, '{overriddencreatedon,importsequencenumber,timezoneruleversionnumber,utcconversiontimezonecode}'),
      (NOT $3 AND $1 ->> 'OwnershipType' IN ('UserOwned', 'TeamOwned'), '{ownerid,owningbusinessunit,owningteam,owninguser}'),
      (NOT $3 AND EXISTS (SELECT FROM attribute AS a WHERE a.type = 'MoneyType'), '{transactioncurrencyid,exchangerate}')) AS k (has, names)
    WHERE k.has
    UNION ALL
    SELECT a.name || unnest(k.suffixes)
    FROM attribute AS a,
      LATERAL (VALUES
        (a.type IN ('LookupType', 'CustomerType', 'OwnerType'), '{name,yominame}'::text[]),
        (jsonb_array_length(a.json -> 'Targets') > 1, '{type}'),
        (a.type IN ('BooleanType', 'PicklistType', 'MultiSelectPicklistType', 'StateType', 'StatusType'), '{name}'),
        (a.type = 'MoneyType', '{_base}'),
        (a.type = 'ImageType', '{id,_timestamp,_url}'),
        (a.type = 'FileType', '{_name}'),
        (a.json ->> 'SourceType' = '2', '{_date,_state}')) AS k (has, suffixes)
    WHERE k.has
    UNION ALL
    SELECT a.name FROM attribute AS a WHERE a.name = a.json ->> 'AttributeOf' || 'pid') AS n (n)
$$;

COMMENT ON FUNCTION dataverse_private.export_added(jsonb, text, boolean, boolean) IS
  'the columns that a table has without being told; for dataverse.export_schema()';

-- "tables" are those of the file, "many" the relationships of intersect tables, "messages" the bulk messages that the
-- table offers.
CREATE FUNCTION dataverse_private.export_table(definition jsonb, tables text[], many jsonb, messages jsonb)
RETURNS jsonb
LANGUAGE sql IMMUTABLE CALLED ON NULL INPUT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  WITH intersect_of (many) AS (
    SELECT (SELECT r FROM jsonb_array_elements($3) AS r
            WHERE r -> 'IntersectEntityName' = $1 -> 'LogicalName' AND ARRAY[r ->> 'Entity1LogicalName', r ->> 'Entity2LogicalName'] <@ $2
            ORDER BY r ->> 'SchemaName' COLLATE "C" LIMIT 1)),
  kind (many, type, is_bare, is_system) AS MATERIALIZED (
    SELECT i.many, t.type, b.is_bare, NOT b.is_bare AND NOT $1 @? '$.Attributes[*] ? (@.LogicalName == "overriddencreatedon")'
    FROM intersect_of AS i,
      LATERAL (SELECT CASE WHEN i.many IS NOT NULL THEN 'intersect' WHEN $1 ->> 'TableType' IN ('Elastic', 'Virtual') THEN lower($1 ->> 'TableType')
                           ELSE 'standard' END) AS t (type),
      LATERAL (SELECT t.type NOT IN ('standard', 'elastic') OR NOT $1 @? '$.Attributes[*] ? (@.LogicalName == "createdon")') AS b (is_bare)),
  added (names) AS MATERIALIZED (
    SELECT dataverse_private.export_added($1, k.type, k.is_bare, k.is_system)
           || array_remove(ARRAY[k.many ->> 'Entity1IntersectAttribute', k.many ->> 'Entity2IntersectAttribute'], NULL)
    FROM kind AS k),
  listed (columns, names) AS MATERIALIZED (
    SELECT jsonb_agg(e.json ORDER BY (a ->> 'ColumnNumber')::integer, e.json ->> 'name' COLLATE "C"),
           array_agg(a ->> 'LogicalName') || (SELECT d.names FROM added AS d)
    FROM jsonb_array_elements($1 -> 'Attributes') AS a, dataverse_private.export_column(a, $1 -> 'ManyToOneRelationships', $2) AS e (json)
    WHERE e.json IS NOT NULL AND a ->> 'LogicalName' <> ALL ((SELECT d.names FROM added AS d)::text[]))
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'name', dataverse_private.export_name($1),
    'id', (SELECT dataverse_private.export_name(a) FROM jsonb_array_elements($1 -> 'Attributes') AS a WHERE a -> 'LogicalName' = $1 -> 'PrimaryIdAttribute'),
    'primary_name', CASE WHEN $1 ->> 'PrimaryNameAttribute' = ANY (c.names) THEN $1 ->> 'PrimaryNameAttribute' END,
    'set', $1 ->> 'EntitySetName',
    'label', dataverse_private.export_label($1 -> 'DisplayName'),
    'collection_label', dataverse_private.export_label($1 -> 'DisplayCollectionName'),
    'type', k.type,
    'ownership', CASE WHEN $1 ->> 'OwnershipType' IN ('UserOwned', 'TeamOwned') THEN 'user' WHEN $1 ->> 'OwnershipType' = 'OrganizationOwned' THEN 'organization'
                      WHEN $1 ->> 'OwnershipType' LIKE 'Business%' THEN 'business' ELSE 'none' END,
    'type_code', ($1 ->> 'ObjectTypeCode')::integer,
    'custom', ($1 ->> 'IsCustomEntity')::boolean,
    'activity', ($1 ->> 'IsActivity')::boolean,
    'change_tracking', ($1 ->> 'ChangeTrackingEnabled')::boolean,
    'optimistic_concurrency', ($1 ->> 'IsOptimisticConcurrencyEnabled')::boolean,
    'create_multiple', $4 ? 'CreateMultiple',
    'update_multiple', $4 ? 'UpdateMultiple',
    'bare', k.is_bare,
    'system', k.is_system,
    'states', dataverse_private.export_states($1 -> 'Attributes'),
    'many', CASE WHEN k.many IS NOT NULL THEN jsonb_build_object(
      'name', k.many ->> 'SchemaName', 'table1', k.many ->> 'Entity1LogicalName', 'table2', k.many ->> 'Entity2LogicalName',
      'navigation1', k.many ->> 'Entity1NavigationPropertyName', 'navigation2', k.many ->> 'Entity2NavigationPropertyName') END,
    'keys', CASE WHEN k.type = 'standard' THEN (
      SELECT jsonb_agg(jsonb_build_object('name', key ->> 'SchemaName', 'label', dataverse_private.export_label(key -> 'DisplayName'),
                                          'columns', key -> 'KeyAttributes', 'status', key ->> 'EntityKeyIndexStatus')
                       ORDER BY key ->> 'SchemaName' COLLATE "C")
      FROM jsonb_array_elements($1 -> 'Keys') AS key WHERE key -> 'KeyAttributes' <@ to_jsonb(c.names)) END,
    'columns', coalesce(c.columns, '[]')))
  FROM kind AS k, listed AS c
$$;

COMMENT ON FUNCTION dataverse_private.export_table(jsonb, text[], jsonb, jsonb) IS
  'a table; for dataverse.export_schema()';

CREATE FUNCTION dataverse.export_schema(server name, tables text[] DEFAULT NULL)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  -- dvsim has these anyway
  core CONSTANT text[] := '{asyncoperation,bulkdeletefailure,bulkdeleteoperation,businessunit,organization,owner,sdkmessage,sdkmessagefilter,solution,'
    'solutioncomponent,systemuser,team,transactioncurrency}';
  languages integer[];
  definitions jsonb[];
  missing text;
  many jsonb;
  others text[];
BEGIN
  IF server IS NULL THEN
    RETURN NULL;
  END IF;
  -- those of the user and of the organization
  languages := ARRAY(
    SELECT DISTINCT (dataverse.request(server, 'GET', l.path) #>> l.place)::integer
    FROM (VALUES ('EntityDefinitions(LogicalName=''systemuser'')?$select=DisplayName', '{DisplayName,UserLocalizedLabel,LanguageCode}'::text[]),
                 ('organizations?$select=languagecode', '{value,0,languagecode}')) AS l (path, place));
  languages := array_remove(languages, NULL);
  IF tables IS NULL THEN
    tables := ARRAY(
      SELECT coalesce((SELECT o.option_value FROM pg_options_to_table(t.ftoptions) AS o WHERE o.option_name = 'table'), c.relname)
      FROM pg_foreign_table AS t JOIN pg_foreign_server AS s ON s.oid = t.ftserver JOIN pg_class AS c ON c.oid = t.ftrelid
      WHERE s.srvname = server AND has_any_column_privilege(c.oid, 'SELECT'));
    IF tables = '{}' THEN
      RAISE EXCEPTION USING
        errcode = 'undefined_table', message = format('server "%s" has no foreign tables that you may read', server),
        hint = 'Import them by IMPORT FOREIGN SCHEMA, or name tables: dataverse.export_schema(server, ARRAY[''account'']).';
    END IF;
  END IF;
  tables := ARRAY(SELECT DISTINCT t COLLATE "C" FROM unnest(tables) AS t WHERE t <> ALL (core) ORDER BY 1);

  definitions := ARRAY(SELECT dataverse_private.export_definitions(server, tables, true, languages));
  missing := (SELECT t FROM unnest(tables) AS t WHERE t <> ALL (ARRAY(SELECT d ->> 'LogicalName' FROM unnest(definitions) AS d)) LIMIT 1);
  IF missing IS NOT NULL THEN
    RAISE EXCEPTION USING
      errcode = 'fdw_table_not_found', message = format('table "%s" is not available in the Web API', missing),
      hint = 'Specify the logical name of the table, such as "account".';
  END IF;

  -- tables that these refer to
  IF EXISTS (SELECT FROM unnest(definitions) AS d WHERE (d ->> 'IsIntersect')::boolean) THEN
    many := (
      SELECT jsonb_agg(r)
      FROM jsonb_array_elements(dataverse.request(server, 'GET', 'RelationshipDefinitions/Microsoft.Dynamics.CRM.ManyToManyRelationshipMetadata'
        '?$select=SchemaName,IntersectEntityName,Entity1LogicalName,Entity1IntersectAttribute,Entity1NavigationPropertyName,'
        'Entity2LogicalName,Entity2IntersectAttribute,Entity2NavigationPropertyName') -> 'value') AS r
      WHERE r ->> 'IntersectEntityName' = ANY (tables));
  END IF;
  others := ARRAY(
    SELECT DISTINCT o.name COLLATE "C"
    FROM (SELECT n #>> '{}' FROM unnest(definitions) AS d, jsonb_path_query(d, '$.Attributes[*] ? (@.AttributeTypeName.Value != "PartyListType").Targets[*]') AS n
          UNION ALL SELECT n FROM jsonb_array_elements(many) AS r, unnest(ARRAY[r ->> 'Entity1LogicalName', r ->> 'Entity2LogicalName']) AS n) AS o (name)
    WHERE o.name <> ALL (core || tables) ORDER BY 1);
  definitions := definitions || ARRAY(SELECT dataverse_private.export_definitions(server, others, false, languages));

  RETURN (
    WITH definition (name, json) AS MATERIALIZED (SELECT d ->> 'LogicalName', d FROM unnest(definitions) AS d),
    names (all_tables) AS (SELECT core || array_agg(d.name) FROM definition AS d),
    messages (json) AS MATERIALIZED (SELECT dataverse_private.export_messages(server, tables))
    SELECT jsonb_build_object(
      'option_sets', (
        SELECT coalesce(jsonb_object_agg(s.json ->> 'Name', dataverse_private.export_options(s.json)), '{}')
        FROM definition AS d, jsonb_array_elements(d.json -> 'Attributes') AS a, dataverse_private.export_option_set(a) AS s (json)
        WHERE (s.json ->> 'IsGlobal')::boolean),
      'tables', (
        SELECT coalesce(jsonb_agg(dataverse_private.export_table(
          d.json, n.all_tables, many, CASE WHEN m.json IS NOT NULL AND d.name = ANY (tables) THEN coalesce(m.json -> d.name, '[]') END)
          ORDER BY d.name COLLATE "C"), '[]')
        FROM definition AS d, names AS n, messages AS m)));
END
$$;

COMMENT ON FUNCTION dataverse.export_schema(name, text[]) IS
  'definitions of tables in Dataverse as a schema file for the simulator dvsim; of all foreign tables of the server, if none are named';
