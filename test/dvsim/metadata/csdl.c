/*
 * csdl.c
 *		$metadata: the schema as CSDL; and the service document.
 *
 * All rows derive from crmbaseentity; systemuser, team and owner from
 * principal, whose key is ownerid, so that an owner's navigation property has
 * one type.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>

#include "store/schema.h"
#include "sim.h"

#define PRINCIPAL_KEY "ownerid"

/* NULL: not a property */
static const char *const edm_types[SIM_TYPES] = {
	[SIM_UUID] = "Edm.Guid",
	[SIM_STRING] = "Edm.String",
	[SIM_MEMO] = "Edm.String",
	[SIM_INTEGER] = "Edm.Int32",
	[SIM_BIGINT] = "Edm.Int64",
	[SIM_DECIMAL] = "Edm.Decimal",
	[SIM_MONEY] = "Edm.Decimal",
	[SIM_DOUBLE] = "Edm.Double",
	[SIM_BOOLEAN] = "Edm.Boolean",
	[SIM_PICKLIST] = "Edm.Int32",
	[SIM_STATE] = "Edm.Int32",
	[SIM_STATUS] = "Edm.Int32",
	[SIM_MULTISELECT] = "Edm.String",
	[SIM_DATETIME] = "Edm.DateTimeOffset",
	[SIM_LOOKUP] = "Edm.Guid",
	[SIM_CUSTOMER] = "Edm.Guid",
	[SIM_OWNER] = "Edm.Guid",
	[SIM_PARTYLIST] = NULL,
	[SIM_ENTITYNAME] = "Edm.String",
	[SIM_IMAGE] = "Edm.Binary",
	[SIM_FILE] = "Edm.Guid",
	[SIM_MANAGED] = "mscrm.BooleanManagedProperty",
	[SIM_VIRTUAL] = NULL
};

static bool
is_principal(const struct sim_table *table)
{
	return strcmp(table->name, "systemuser") == 0 || strcmp(table->name, "team") == 0 ||
		strcmp(table->name, "owner") == 0;
}

static const char *
key_of(const struct sim_table *table)
{
	if (is_principal(table))
		return PRINCIPAL_KEY;
	return table->id ? table->id->name : "";
}

/* name="value", escaped */
static void
put_attribute(struct sim_buf *buf, const char *name, const char *value)
{
	sim_putc(buf, ' ');
	sim_puts(buf, name);
	sim_puts(buf, "=\"");
	sim_put_xml(buf, value, strlen(value));
	sim_putc(buf, '"');
}

/* ---------------------------------------------------------------- properties */

/* For ?annotations=true: marks properties that the client cannot write. */
static void
put_computed(struct sim_buf *buf)
{
	sim_puts(buf, "><Annotation Term=\"Org.OData.Core.V1.Computed\"><Bool>true</Bool></Annotation>"
			 "<Annotation Term=\"Org.OData.Core.V1.Permissions\">"
			 "<EnumMember>Org.OData.Core.V1.PermissionType/Read</EnumMember></Annotation>"
			 "</Property>");
}

static void
put_property(struct sim_buf *buf, const struct sim_column *column, bool annotations)
{
	const char *type = edm_types[column->type];

	if (column->type == SIM_DATETIME && column->behaviour == SIM_DATE_ONLY)
		type = "Edm.Date";
	if (type == NULL || !column->selectable || column->property == NULL)
		return;
	if (is_principal(column->table) && strcmp(column->property, PRINCIPAL_KEY) == 0)
		return;
	sim_puts(buf, "<Property");
	put_attribute(buf, "Name", column->property);
	put_attribute(buf, "Type", type);
	if (column->type == SIM_DECIMAL || column->type == SIM_MONEY)
		put_attribute(buf, "Scale", "Variable");
	if (column->type == SIM_STRING || column->type == SIM_MEMO)
		put_attribute(buf, "Unicode", "false");
	if (annotations && !column->valid_for_create && !column->valid_for_update)
		put_computed(buf);
	else
		sim_puts(buf, "/>");
}

/* Several targets may share one property ("ownerid"); it is written once, as a principal. */
static bool
seen_before(const struct sim_column *column, int target)
{
	int			i;

	for (i = 0; i < target; i++)
		if (strcmp(column->targets[i].navigation, column->targets[target].navigation) == 0)
			return true;
	return false;
}

static bool
is_shared(const struct sim_column *column, int target)
{
	int			i;

	for (i = 0; i < column->ntargets; i++)
		if (i != target &&
			strcmp(column->targets[i].navigation, column->targets[target].navigation) == 0)
			return true;
	return false;
}

static void
put_lookup(struct sim_buf *buf, const struct sim_column *column)
{
	int			i;

	for (i = 0; i < column->ntargets; i++)
	{
		const struct sim_target *target = &column->targets[i];
		bool		shared;

		if (target->navigation == NULL || column->property == NULL || seen_before(column, i))
			continue;
		shared = is_shared(column, i);
		sim_puts(buf, "<NavigationProperty");
		put_attribute(buf, "Name", target->navigation);
		sim_puts(buf, " Type=\"mscrm.");
		sim_puts(buf, shared ? "principal" : target->table->name);
		sim_puts(buf, "\" Nullable=\"false\"");
		if (!shared && target->relationship && target->relationship->collection)
			put_attribute(buf, "Partner", target->relationship->collection);
		sim_puts(buf, "><ReferentialConstraint");
		put_attribute(buf, "Property", column->property);
		put_attribute(buf, "ReferencedProperty", shared ? PRINCIPAL_KEY : key_of(target->table));
		sim_puts(buf, "/></NavigationProperty>");
	}
}

static void
put_collection(struct sim_buf *buf, const char *name, const char *type, const char *partner)
{
	if (name == NULL)
		return;
	sim_puts(buf, "<NavigationProperty");
	put_attribute(buf, "Name", name);
	sim_putf(buf, " Type=\"Collection(mscrm.%s)\"", type);
	if (partner)
		put_attribute(buf, "Partner", partner);
	sim_puts(buf, "/>");
}

/* The rows on the other side: a table related to itself has both ends. */
static void
put_many(struct sim_buf *buf, const struct sim_table *table, const struct sim_many *many)
{
	if (many->table1 == table)
		put_collection(buf, many->navigation1, many->table2->name, many->navigation2);
	if (many->table2 == table &&
		(many->table1 != table || strcmp(many->navigation1, many->navigation2) != 0))
		put_collection(buf, many->navigation2, many->table1->name, many->navigation1);
}

static void
put_entity_type(struct sim_buf *buf, const struct sim_table *table, bool annotations)
{
	int			i;

	sim_puts(buf, "<EntityType");
	put_attribute(buf, "Name", table->name);
	put_attribute(buf, "BaseType", is_principal(table) ? "mscrm.principal" : "mscrm.crmbaseentity");
	sim_putc(buf, '>');
	if (!is_principal(table) && table->id)
	{
		sim_puts(buf, "<Key><PropertyRef");
		put_attribute(buf, "Name", table->id->name);
		sim_puts(buf, "/></Key>");
	}
	for (i = 0; i < table->ncolumns; i++)
		put_property(buf, &table->columns[i], annotations);
	for (i = 0; i < table->ncolumns; i++)
		put_lookup(buf, &table->columns[i]);
	for (i = 0; i < table->none_to_many; i++)
		put_collection(buf, table->one_to_many[i]->collection,
					   table->one_to_many[i]->referencing->name,
					   table->one_to_many[i]->column->type == SIM_OWNER ?
					   NULL : table->one_to_many[i]->navigation);
	for (i = 0; i < table->nmany_to_many; i++)
		put_many(buf, table, table->many_to_many[i]);
	sim_puts(buf, "</EntityType>\n");
}

/* ---------------------------------------------------------------- operations */

static void
put_bulk_action(struct sim_buf *buf, const struct sim_table *table, const char *name,
				const char *response)
{
	sim_putf(buf, "<Action Name=\"%s\" IsBound=\"true\">"
			 "<Parameter Name=\"entityset\" Type=\"Collection(mscrm.%s)\" Nullable=\"false\"/>"
			 "<Parameter Name=\"Targets\" Type=\"Collection(mscrm.%s)\" Nullable=\"false\"/>",
			 name, table->name, table->name);
	if (response)
		sim_putf(buf, "<ReturnType Type=\"mscrm.%s\" Nullable=\"false\"/>", response);
	sim_puts(buf, "</Action>\n");
}

static void
put_actions(struct sim_buf *buf, const struct sim_table *table)
{
	if (table->create_multiple)
		put_bulk_action(buf, table, "CreateMultiple", "CreateMultipleResponse");
	if (table->update_multiple)
		put_bulk_action(buf, table, "UpdateMultiple", NULL);
	if (table->create_multiple && table->update_multiple)
		put_bulk_action(buf, table, "UpsertMultiple", NULL);
	if (table->delete_multiple)
		put_bulk_action(buf, table, "DeleteMultiple", NULL);
}

/* Types and functions that do not depend on the schema. */
static const char fixed_types[] =
"<ComplexType Name=\"BooleanManagedProperty\"><Property Name=\"Value\" Type=\"Edm.Boolean\" "
"Nullable=\"false\"/><Property Name=\"CanBeChanged\" Type=\"Edm.Boolean\" Nullable=\"false\"/>"
"<Property Name=\"ManagedPropertyLogicalName\" Type=\"Edm.String\" Unicode=\"false\"/>"
"</ComplexType>\n"
"<ComplexType Name=\"WhoAmIResponse\"><Property Name=\"BusinessUnitId\" Type=\"Edm.Guid\" "
"Nullable=\"false\"/><Property Name=\"UserId\" Type=\"Edm.Guid\" Nullable=\"false\"/>"
"<Property Name=\"OrganizationId\" Type=\"Edm.Guid\" Nullable=\"false\"/></ComplexType>\n"
"<ComplexType Name=\"RetrieveVersionResponse\"><Property Name=\"Version\" Type=\"Edm.String\" "
"Unicode=\"false\"/></ComplexType>\n"
"<ComplexType Name=\"EntityRecordCountCollection\"><Property Name=\"Count\" Type=\"Edm.Int32\" "
"Nullable=\"false\"/><Property Name=\"IsReadOnly\" Type=\"Edm.Boolean\" Nullable=\"false\"/>"
"<Property Name=\"Keys\" Type=\"Collection(Edm.String)\" Nullable=\"false\"/>"
"<Property Name=\"Values\" Type=\"Collection(Edm.Int64)\" Nullable=\"false\"/></ComplexType>\n"
"<ComplexType Name=\"RetrieveTotalRecordCountResponse\">"
"<Property Name=\"EntityRecordCountCollection\" Type=\"mscrm.EntityRecordCountCollection\"/>"
"</ComplexType>\n"
"<ComplexType Name=\"CreateMultipleResponse\"><Property Name=\"Ids\" "
"Type=\"Collection(Edm.Guid)\" Nullable=\"false\"/></ComplexType>\n"
"<Function Name=\"WhoAmI\"><ReturnType Type=\"mscrm.WhoAmIResponse\" Nullable=\"false\"/>"
"</Function>\n"
"<Function Name=\"RetrieveVersion\"><ReturnType Type=\"mscrm.RetrieveVersionResponse\" "
"Nullable=\"false\"/></Function>\n"
"<Function Name=\"RetrieveTotalRecordCount\"><Parameter Name=\"EntityNames\" "
"Type=\"Collection(Edm.String)\" Nullable=\"false\"/>"
"<ReturnType Type=\"mscrm.RetrieveTotalRecordCountResponse\" Nullable=\"false\"/></Function>\n";

static const char fixed_imports[] =
"<FunctionImport Name=\"WhoAmI\" Function=\"Microsoft.Dynamics.CRM.WhoAmI\"/>\n"
"<FunctionImport Name=\"RetrieveVersion\" Function=\"Microsoft.Dynamics.CRM.RetrieveVersion\"/>\n"
"<FunctionImport Name=\"RetrieveTotalRecordCount\" "
"Function=\"Microsoft.Dynamics.CRM.RetrieveTotalRecordCount\"/>\n";

/* ---------------------------------------------------------------- container and answers */

static void
put_binding(struct sim_buf *buf, const char *path, const struct sim_table *target)
{
	if (path == NULL || target->set_name == NULL)
		return;
	sim_puts(buf, "<NavigationPropertyBinding");
	put_attribute(buf, "Path", path);
	put_attribute(buf, "Target", target->set_name);
	sim_puts(buf, "/>");
}

static void
put_entity_set(struct sim_buf *buf, const struct sim_table *table, bool annotations)
{
	int			i;
	int			j;

	if (table->set_name == NULL)
		return;
	sim_puts(buf, "<EntitySet");
	put_attribute(buf, "Name", table->set_name);
	sim_putf(buf, " EntityType=\"Microsoft.Dynamics.CRM.%s\">", table->name);
	for (i = 0; i < table->ncolumns; i++)
		for (j = 0; j < table->columns[i].ntargets; j++)
			if (table->columns[i].targets[j].navigation && !is_shared(&table->columns[i], j))
				put_binding(buf, table->columns[i].targets[j].navigation,
							table->columns[i].targets[j].table);
	for (i = 0; i < table->none_to_many; i++)
		put_binding(buf, table->one_to_many[i]->collection, table->one_to_many[i]->referencing);
	if (annotations && table->change_tracking)
		sim_puts(buf, "<Annotation Term=\"Org.OData.Capabilities.V1.ChangeTracking\"><Record>"
				 "<PropertyValue Property=\"Supported\" Bool=\"true\" /></Record></Annotation>\n");
	sim_puts(buf, "</EntitySet>\n");
}

bool
sim_csdl(struct sim_req *req, struct sim_res *res)
{
	const struct sim_schema *schema = req->sim->schema;
	const char *asked = sim_param(req, "annotations");
	bool		annotations = asked && strcmp(asked, "true") == 0;
	struct sim_buf *buf = &res->body;
	int			i;

	res->status = 200;
	res->kind = SIM_METADATA;
	res->content_type = "application/xml";
	sim_puts(buf, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
			 "<edmx:Edmx Version=\"4.0\" xmlns:edmx=\"http://docs.oasis-open.org/odata/ns/edmx\">\n"
			 "<edmx:DataServices>\n"
			 "<Schema Namespace=\"Microsoft.Dynamics.CRM\" Alias=\"mscrm\" "
			 "xmlns=\"http://docs.oasis-open.org/odata/ns/edm\">\n"
			 "<EntityType Name=\"crmbaseentity\" Abstract=\"true\"/>\n"
			 "<EntityType Name=\"principal\" BaseType=\"mscrm.crmbaseentity\">"
			 "<Key><PropertyRef Name=\"" PRINCIPAL_KEY "\"/></Key>"
			 "<Property Name=\"" PRINCIPAL_KEY "\" Type=\"Edm.Guid\"/></EntityType>\n");
	for (i = 0; i < schema->ntables; i++)
		put_entity_type(buf, &schema->tables[i], annotations);
	sim_puts(buf, fixed_types);
	for (i = 0; i < schema->ntables; i++)
		put_actions(buf, &schema->tables[i]);
	sim_puts(buf, "<EntityContainer Name=\"System\">\n");
	for (i = 0; i < schema->ntables; i++)
		put_entity_set(buf, &schema->tables[i], annotations);
	sim_puts(buf, fixed_imports);
	sim_puts(buf, "</EntityContainer>\n</Schema>\n</edmx:DataServices>\n</edmx:Edmx>\n");
	return true;
}

bool
sim_service_document(struct sim_req *req, struct sim_res *res)
{
	const struct sim_schema *schema = req->sim->schema;
	bool		first = true;
	int			i;

	sim_json_answer(res, 200);
	res->kind = SIM_METADATA;
	sim_putf(&res->body, "{\"@odata.context\":\"%s" SIM_ROOT "$metadata\",\"value\":[",
			 req->base_url);
	for (i = 0; i < schema->ntables; i++)
	{
		const char *set = schema->tables[i].set_name;

		if (set == NULL)
			continue;
		sim_putf(&res->body, "%s{\"name\":\"%s\",\"kind\":\"EntitySet\",\"url\":\"%s\"}",
				 first ? "" : ",", set, set);
		first = false;
	}
	sim_puts(&res->body, "]}");
	return true;
}
