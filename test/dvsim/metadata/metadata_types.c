/*
 * metadata_types.c
 *		Tables, keys and relationships as definitions: the table of
 *		properties of each type, and their connections.
 *
 * Properties without a counterpart in the simulator have the fixed value of an
 * ordinary custom table.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <string.h>
#include <strings.h>

#include "metadata/metadata.h"

#define ELASTIC_PROVIDER "1d9bde74-9ebd-4da9-8ff5-aa74945b9f74"
#define VIRTUAL_PROVIDER "7015a531-cc0d-4537-b5f2-c882a1eb65ad"
#define BORN "2020-01-01T00:00:00Z"

/* ---------------------------------------------------------------- tables */

static void
set_text(struct sim_meta_value *value, const char *s)
{
	value->null = s == NULL;
	value->s = s;
}

static void
entity_ownership(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	static const char *const names[] = {
		[SIM_USER_OWNED] = "UserOwned",
		[SIM_ORGANIZATION_OWNED] = "OrganizationOwned",
		[SIM_BUSINESS_OWNED] = "BusinessOwned",
		[SIM_OWNED_BY_NONE] = "None"
	};
	const struct sim_table *table = item->object;

	set_text(value, names[table->ownership]);
}

static void
entity_table_type(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	static const char *const names[] = {
		[SIM_STANDARD] = "Standard",
		[SIM_ELASTIC] = "Elastic",
		[SIM_VIRTUAL_TABLE] = "Virtual",
		[SIM_INTERSECT] = "Standard"
	};
	const struct sim_table *table = item->object;

	set_text(value, names[table->type]);
}

static void
entity_provider(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_table *table = item->object;

	if (table->type == SIM_ELASTIC)
		set_text(value, ELASTIC_PROVIDER);
	else if (table->type == SIM_VIRTUAL_TABLE)
		set_text(value, VIRTUAL_PROVIDER);
	else
		set_text(value, NULL);
}

static void
entity_primary_id(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_table *table = item->object;

	set_text(value, table->id ? table->id->name : NULL);
}

static void
entity_primary_name(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_table *table = item->object;

	set_text(value, table->primary_name ? table->primary_name->name : NULL);
}

static void
entity_primary_image(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_table *table = item->object;
	int			i;

	set_text(value, NULL);
	for (i = 0; i < table->ncolumns && value->null; i++)
		if (sim_is_primary_image(&table->columns[i]))
			set_text(value, table->columns[i].name);
}

static void
entity_intersect(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = ((const struct sim_table *) item->object)->type == SIM_INTERSECT;
}

static void
entity_managed(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = !((const struct sim_table *) item->object)->custom;
}

static void
entity_find(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	value->i = ((const struct sim_table *) item->object)->type != SIM_INTERSECT;
}

/* Tables whose rows can be in a party list of an activity. */
static void
entity_party(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	static const char *const parties[] = {
		"account", "contact", "lead", "queue", "systemuser", "team"
	};
	const struct sim_table *table = item->object;
	size_t		i;

	value->i = false;
	for (i = 0; i < sizeof(parties) / sizeof(parties[0]); i++)
		if (strcmp(table->name, parties[i]) == 0)
			value->i = true;
}

static void
entity_notes(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_table *table = item->object;
	int			i;

	value->i = false;
	for (i = 0; i < table->none_to_many; i++)
		if (strcmp(table->one_to_many[i]->referencing->name, "annotation") == 0 &&
			strcmp(table->one_to_many[i]->column->name, "objectid") == 0)
			value->i = true;
}

static void
entity_activities(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_table *table = item->object;
	int			i;

	value->i = false;
	for (i = 0; i < table->none_to_many; i++)
		if (table->one_to_many[i]->referencing->activity &&
			strcmp(table->one_to_many[i]->column->name, "regardingobjectid") == 0)
			value->i = true;
}

/* The entity set's name with the capitals of the schema name. */
static void
entity_collection_schema(struct sim_meta_query *query, const struct sim_meta_item *item,
						 struct sim_buf *buf)
{
	const struct sim_table *table = item->object;
	const char *set = table->set_name ? table->set_name : table->name;
	size_t		same = 0;
	char	   *name = sim_strdup(query->arena, set);

	while (table->schema_name[same] != '\0' && set[same] != '\0' &&
		   strncasecmp(table->schema_name + same, set + same, 1) == 0)
		same++;
	memcpy(name, table->schema_name, same);
	sim_put_json(buf, name, strlen(name));
}

static void
entity_report_view(struct sim_meta_query *query, const struct sim_meta_item *item,
				   struct sim_buf *buf)
{
	const struct sim_table *table = item->object;

	if (table->type == SIM_INTERSECT)
		sim_puts(buf, "null");
	else
	{
		char	   *name = sim_fmt(query->arena, "Filtered%s", table->schema_name);

		sim_put_json(buf, name, strlen(name));
	}
}

static void
entity_privileges(struct sim_meta_query *query, const struct sim_meta_item *item,
				  struct sim_buf *buf)
{
	static const struct
	{
		const char *name;
		bool		owned;		/* only if rows have owners */
	}			kinds[] = {
		{"Create", false}, {"Read", false}, {"Write", false}, {"Delete", false},
		{"Assign", true}, {"Share", true}, {"Append", false}, {"AppendTo", false}
	};
	const struct sim_table *table = item->object;
	bool		owned = table->ownership == SIM_USER_OWNED;
	bool		first = true;
	size_t		i;

	(void) query;
	sim_putc(buf, '[');
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && table->type != SIM_INTERSECT; i++)
	{
		const char *yes = owned ? "true" : "false";
		char		id[37];

		if (kinds[i].owned && !owned)
			continue;
		sim_meta_derive_id(table->metadata_id, kinds[i].name, id);
		sim_putf(buf, "%s{\"CanBeBasic\":%s,\"CanBeDeep\":%s,\"CanBeGlobal\":true,"
				 "\"CanBeLocal\":%s,\"CanBeEntityReference\":false,"
				 "\"CanBeParentEntityReference\":false,\"Name\":\"prv%s%s\","
				 "\"PrivilegeId\":\"%s\",\"PrivilegeType\":\"%s\"}", first ? "" : ",",
				 yes, yes, yes, kinds[i].name, table->schema_name, id, kinds[i].name);
		first = false;
	}
	sim_putc(buf, ']');
}

static void
put_empty_array(struct sim_meta_query *query, const struct sim_meta_item *item,
				struct sim_buf *buf)
{
	(void) query;
	(void) item;
	sim_puts(buf, "[]");
}

#define ENTITY_AT(n, k, s, f) META_AT(n, k, s, struct sim_table, f)

static const struct sim_meta_prop entity_props[] = {
	META_FIXED("ActivityTypeMask", INT, "0"),
	META_FIXED("AutoRouteToOwnerQueue", BOOL, "false"),
	META_FIXED("CanTriggerWorkflow", BOOL, "true"),
	META_FIXED("EntityHelpUrlEnabled", BOOL, "false"),
	META_FIXED("EntityHelpUrl", TEXT, NULL),
	META_FIXED("IsDocumentManagementEnabled", BOOL, "false"),
	META_FIXED("IsOneNoteIntegrationEnabled", BOOL, "false"),
	META_FIXED("IsInteractionCentricEnabled", BOOL, "false"),
	META_FIXED("IsKnowledgeManagementEnabled", BOOL, "false"),
	META_FIXED("IsSLAEnabled", BOOL, "false"),
	META_FIXED("IsBPFEntity", BOOL, "false"),
	META_FIXED("IsDocumentRecommendationsEnabled", BOOL, "false"),
	META_FIXED("IsMSTeamsIntegrationEnabled", BOOL, "false"),
	META_FIXED("SettingOf", TEXT, NULL),
	META_GET("DataProviderId", GUID, entity_provider),
	META_FIXED("DataSourceId", GUID, NULL),
	META_FIXED("AutoCreateAccessTeams", BOOL, "false"),
	ENTITY_AT("IsActivity", BOOL, BOOL, activity),
	META_GET("IsActivityParty", BOOL, entity_party),
	META_FIXED("IsRetrieveAuditEnabled", BOOL, "false"),
	META_FIXED("IsRetrieveMultipleAuditEnabled", BOOL, "false"),
	META_FIXED("IsArchivalEnabled", BOOL, "false"),
	META_FIXED("IsRetentionEnabled", BOOL, "false"),
	META_GET("TableType", TEXT, entity_table_type),
	META_FIXED("IsAvailableOffline", BOOL, "false"),
	META_FIXED("IsChildEntity", BOOL, "false"),
	META_FIXED("IsAIRUpdated", BOOL, "false"),
	META_FIXED("IconLargeName", TEXT, NULL),
	META_FIXED("IconMediumName", TEXT, NULL),
	META_FIXED("IconSmallName", TEXT, NULL),
	META_FIXED("IconVectorName", TEXT, NULL),
	ENTITY_AT("IsCustomEntity", BOOL, BOOL, custom),
	META_FIXED("IsBusinessProcessEnabled", BOOL, "false"),
	META_FIXED("SyncToExternalSearchIndex", BOOL, "false"),
	ENTITY_AT("IsOptimisticConcurrencyEnabled", BOOL, BOOL, optimistic_concurrency),
	ENTITY_AT("ChangeTrackingEnabled", BOOL, BOOL, change_tracking),
	META_FIXED("IsImportable", BOOL, "true"),
	META_GET("IsIntersect", BOOL, entity_intersect),
	META_GET("IsManaged", BOOL, entity_managed),
	META_FIXED("IsEnabledForCharts", BOOL, "true"),
	META_FIXED("IsEnabledForTrace", BOOL, "false"),
	META_GET("IsValidForAdvancedFind", BOOL, entity_find),
	META_FIXED("DaysSinceRecordLastModified", INT, "0"),
	META_FIXED("MobileOfflineFilters", TEXT, ""),
	META_FIXED("IsReadingPaneEnabled", BOOL, "true"),
	META_FIXED("IsQuickCreateEnabled", BOOL, "false"),
	ENTITY_AT("LogicalName", TEXT, TEXT, name),
	ENTITY_AT("ObjectTypeCode", INT, INT, type_code),
	META_ENUM("OwnershipType", "OwnershipTypes", entity_ownership),
	META_GET("PrimaryNameAttribute", TEXT, entity_primary_name),
	META_GET("PrimaryImageAttribute", TEXT, entity_primary_image),
	META_GET("PrimaryIdAttribute", TEXT, entity_primary_id),
	META_FIXED("RecurrenceBaseEntityLogicalName", TEXT, NULL),
	META_PUT("ReportViewName", entity_report_view),
	ENTITY_AT("SchemaName", TEXT, TEXT, schema_name),
	META_FIXED("IntroducedVersion", TEXT, "1.0.0.0"),
	ENTITY_AT("IsStateModelAware", BOOL, BOOL, has_state),
	META_FIXED("EnforceStateTransitions", BOOL, "false"),
	META_FIXED("ExternalName", TEXT, NULL),
	META_FIXED("EntityColor", TEXT, NULL),
	ENTITY_AT("LogicalCollectionName", TEXT, TEXT, set_name),
	META_FIXED("ExternalCollectionName", TEXT, NULL),
	META_PUT("CollectionSchemaName", entity_collection_schema),
	ENTITY_AT("EntitySetName", TEXT, TEXT, set_name),
	META_FIXED("IsEnabledForExternalChannels", BOOL, "false"),
	META_FIXED("IsPrivate", BOOL, "false"),
	META_FIXED("UsesBusinessDataLabelTable", BOOL, "false"),
	META_FIXED("IsLogicalEntity", BOOL, "false"),
	META_GET("HasNotes", BOOL, entity_notes),
	META_GET("HasActivities", BOOL, entity_activities),
	META_FIXED("HasFeedback", BOOL, "false"),
	META_FIXED("IsSolutionAware", BOOL, "false"),
	META_FIXED("CreatedOn", TIME, BORN),
	META_FIXED("ModifiedOn", TIME, BORN),
	META_FIXED("HasEmailAddresses", BOOL, "false"),
	META_FIXED("OwnerId", GUID, NULL),
	META_FIXED("OwnerIdType", INT, "8"),
	META_FIXED("OwningBusinessUnit", GUID, NULL),
	ENTITY_AT("MetadataId", GUID, CHARS, metadata_id),
	META_FIXED("HasChanged", BOOL, NULL),
	META_FIXED("Description", LABEL, NULL),
	ENTITY_AT("DisplayCollectionName", LABEL, TEXT, collection_label),
	ENTITY_AT("DisplayName", LABEL, TEXT, label),
	META_MANAGED("IsAuditEnabled", "canmodifyauditsettings", "false"),
	META_MANAGED("IsValidForQueue", "canmodifyqueuesettings", "false"),
	META_MANAGED("IsConnectionsEnabled", "canmodifyconnectionsettings", "false"),
	META_MANAGED("IsCustomizable", "iscustomizable", "true"),
	META_MANAGED("IsRenameable", "isrenameable", "true"),
	META_MANAGED("IsMappable", "ismappable", "true"),
	META_MANAGED("IsDuplicateDetectionEnabled", "canmodifyduplicatedetectionsettings", "false"),
	META_MANAGED("CanCreateAttributes", "cancreateattributes", "true"),
	META_MANAGED("CanCreateForms", "cancreateforms", "true"),
	META_MANAGED("CanCreateViews", "cancreateviews", "true"),
	META_MANAGED("CanCreateCharts", "cancreatecharts", "true"),
	META_MANAGED("CanBeRelatedEntityInRelationship", "canberelatedentityinrelationship", "true"),
	META_MANAGED("CanBePrimaryEntityInRelationship", "canbeprimaryentityinrelationship", "true"),
	META_MANAGED("CanBeInManyToMany", "canbeinmanytomany", "true"),
	META_MANAGED("CanBeInCustomEntityAssociation", "canbeincustomentityassociation", "true"),
	META_MANAGED("CanEnableSyncToExternalSearchIndex", "canenablesynctoexternalsearchindex",
				 "true"),
	META_MANAGED("CanModifyAdditionalSettings", "canmodifyadditionalsettings", "true"),
	META_MANAGED("CanChangeHierarchicalRelationship", "canchangehierarchicalrelationship", "true"),
	META_MANAGED("CanChangeTrackingBeEnabled", "canchangetrackingbeenabled", "true"),
	META_MANAGED("IsMailMergeEnabled", "canmodifymailmergesettings", "false"),
	META_MANAGED("IsVisibleInMobile", "canmodifymobilevisibility", "false"),
	META_MANAGED("IsVisibleInMobileClient", "canmodifymobileclientvisibility", "false"),
	META_MANAGED("IsReadOnlyInMobileClient", "canmodifymobileclientreadonly", "false"),
	META_MANAGED("IsOfflineInMobileClient", "canmodifymobileclientoffline", "false"),
	META_PUT("Privileges", entity_privileges),
	META_PUT("Settings", put_empty_array),
	META_END
};

static void
entity_keys(struct sim_arena *arena, const struct sim_meta_item *item, struct sim_meta_list *out)
{
	const struct sim_table *table = item->object;
	int			i;

	for (i = 0; i < table->nkeys; i++)
	{
		struct sim_meta_item *to = sim_meta_add(arena, out, table->nkeys);

		to->type = &sim_meta_key;
		to->object = &table->keys[i];
		to->owner = table;
	}
}

static void
add_relationships(struct sim_arena *arena, struct sim_relationship *const *from, int n,
				  struct sim_meta_list *out)
{
	int			i;

	for (i = 0; i < n; i++)
	{
		struct sim_meta_item *to = sim_meta_add(arena, out, n);

		to->type = &sim_meta_one_to_many;
		to->object = from[i];
	}
}

static void
entity_many_to_one(struct sim_arena *arena, const struct sim_meta_item *item,
				   struct sim_meta_list *out)
{
	const struct sim_table *table = item->object;

	add_relationships(arena, table->many_to_one, table->nmany_to_one, out);
}

static void
entity_one_to_many(struct sim_arena *arena, const struct sim_meta_item *item,
				   struct sim_meta_list *out)
{
	const struct sim_table *table = item->object;

	add_relationships(arena, table->one_to_many, table->none_to_many, out);
}

static void
entity_many_to_many(struct sim_arena *arena, const struct sim_meta_item *item,
					struct sim_meta_list *out)
{
	const struct sim_table *table = item->object;
	int			i;

	for (i = 0; i < table->nmany_to_many; i++)
	{
		struct sim_meta_item *to = sim_meta_add(arena, out, table->nmany_to_many);

		to->type = &sim_meta_many_to_many;
		to->object = table->many_to_many[i];
	}
}

static const struct sim_meta_nav entity_navs[] = {
	{"Attributes", &sim_meta_attribute, true, true, sim_meta_attributes},
	{"Keys", &sim_meta_key, true, true, entity_keys},
	{"ManyToManyRelationships", &sim_meta_many_to_many, true, true, entity_many_to_many},
	{"ManyToOneRelationships", &sim_meta_one_to_many, true, true, entity_many_to_one},
	{"OneToManyRelationships", &sim_meta_one_to_many, true, true, entity_one_to_many},
	{NULL}
};

const struct sim_meta_type sim_meta_entity = {
	.name = "EntityMetadata",
	.key = "LogicalName",
	.navs = entity_navs,
	.groups = {entity_props}
};

/* ---------------------------------------------------------------- keys */

static void
key_entity(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_table *) item->owner)->name);
}

static void
key_attributes(struct sim_meta_query *query, const struct sim_meta_item *item,
			   struct sim_buf *buf)
{
	const struct sim_key_def *key = item->object;
	int			i;

	(void) query;
	sim_putc(buf, '[');
	for (i = 0; i < key->n; i++)
		sim_putf(buf, "%s\"%s\"", i > 0 ? "," : "", key->columns[i]->name);
	sim_putc(buf, ']');
}

static void
key_status(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_key_def *key = item->object;

	set_text(value, key->status ? key->status : "Active");
}

static void
key_job(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_key_def *key = item->object;

	set_text(value, key->async_job[0] != '\0' ? key->async_job : NULL);
}

#define KEY_AT(n, k, s, f) META_AT(n, k, s, struct sim_key_def, f)

static const struct sim_meta_prop key_props[] = {
	KEY_AT("SchemaName", TEXT, TEXT, schema_name),
	KEY_AT("LogicalName", TEXT, TEXT, name),
	META_GET("EntityLogicalName", TEXT, key_entity),
	META_PUT("KeyAttributes", key_attributes),
	META_ENUM("EntityKeyIndexStatus", "EntityKeyIndexStatus", key_status),
	META_GET("AsyncJob", GUID, key_job),
	KEY_AT("IsSynchronous", BOOL, BOOL, synchronous),
	META_FIXED("IsManaged", BOOL, "false"),
	META_FIXED("IsExportKey", BOOL, "false"),
	META_FIXED("IsSecondaryKey", BOOL, "false"),
	META_FIXED("IntroducedVersion", TEXT, "1.0.0.0"),
	KEY_AT("MetadataId", GUID, CHARS, metadata_id),
	META_FIXED("HasChanged", BOOL, NULL),
	KEY_AT("DisplayName", LABEL, TEXT, label),
	META_MANAGED("IsCustomizable", "iscustomizable", "true"),
	META_END
};

const struct sim_meta_type sim_meta_key = {
	.name = "EntityKeyMetadata",
	.key = "LogicalName",
	.groups = {key_props}
};

/* ---------------------------------------------------------------- relationships */

/* The properties of the base need getters: two structs stand behind it. */

static bool
is_many_to_many(const struct sim_meta_item *item)
{
	return item->type == &sim_meta_many_to_many;
}

static void
relationship_schema(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	if (is_many_to_many(item))
		set_text(value, ((const struct sim_many *) item->object)->schema_name);
	else
		set_text(value, ((const struct sim_relationship *) item->object)->schema_name);
}

static void
relationship_id(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	if (is_many_to_many(item))
		set_text(value, ((const struct sim_many *) item->object)->metadata_id);
	else
		set_text(value, ((const struct sim_relationship *) item->object)->metadata_id);
}

static void
relationship_type(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, is_many_to_many(item) ? "ManyToManyRelationship" :
			 "OneToManyRelationship");
}

static void
relationship_custom(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	if (is_many_to_many(item))
		value->i = ((const struct sim_many *) item->object)->intersect->custom;
	else
		value->i = ((const struct sim_relationship *) item->object)->custom;
}

static void
relationship_managed(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	relationship_custom(item, value);
	value->i = !value->i;
}

static const struct sim_meta_prop relationship_props[] = {
	META_GET("IsCustomRelationship", BOOL, relationship_custom),
	META_FIXED("IsValidForAdvancedFind", BOOL, "true"),
	META_GET("SchemaName", TEXT, relationship_schema),
	META_ENUM_FIXED("SecurityTypes", "SecurityTypes", "Append"),
	META_GET("IsManaged", BOOL, relationship_managed),
	META_ENUM("RelationshipType", "RelationshipType", relationship_type),
	META_FIXED("IntroducedVersion", TEXT, "1.0.0.0"),
	META_GET("MetadataId", GUID, relationship_id),
	META_FIXED("HasChanged", BOOL, NULL),
	META_MANAGED("IsCustomizable", "iscustomizable", "true"),
	META_END
};

static void
one_referencing(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_relationship *) item->object)->referencing->name);
}

static void
one_referencing_attribute(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_relationship *) item->object)->column->name);
}

static void
one_referenced(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_relationship *) item->object)->referenced->name);
}

static void
one_referenced_attribute(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	const struct sim_relationship *relationship = item->object;

	set_text(value, relationship->referenced->id ? relationship->referenced->id->name : NULL);
}

static void
one_cascade(struct sim_meta_query *query, const struct sim_meta_item *item, struct sim_buf *buf)
{
	static const char *const names[] = {
		[SIM_REMOVE_LINK] = "RemoveLink",
		[SIM_RESTRICT] = "Restrict",
		[SIM_CASCADE] = "Cascade"
	};
	const struct sim_relationship *relationship = item->object;
	const char *others = relationship->on_delete == SIM_CASCADE ? "Cascade" : "NoCascade";

	(void) query;
	sim_putf(buf, "{\"Assign\":\"%s\",\"Delete\":\"%s\",\"Archive\":\"%s\",\"Merge\":\"NoCascade\","
			 "\"Reparent\":\"%s\",\"Share\":\"%s\",\"Unshare\":\"%s\","
			 "\"RollupView\":\"NoCascade\"}",
			 others, names[relationship->on_delete], names[relationship->on_delete],
			 others, others, others);
}

static void
put_menu(struct sim_meta_query *query, const struct sim_meta_item *item, struct sim_buf *buf)
{
	(void) query;
	(void) item;
	sim_puts(buf, "{\"Behavior\":\"UseCollectionName\",\"Group\":\"Details\",\"Order\":10000,"
			 "\"IsCustomizable\":true,\"Icon\":null,"
			 "\"ViewId\":\"00000000-0000-0000-0000-000000000000\",\"AvailableOffline\":true,"
			 "\"MenuId\":null,\"QueryApi\":null,"
			 "\"Label\":{\"LocalizedLabels\":[],\"UserLocalizedLabel\":null}}");
}

#define ONE_AT(n, f) META_AT(n, TEXT, TEXT, struct sim_relationship, f)

static const struct sim_meta_prop one_to_many_props[] = {
	META_GET("ReferencedAttribute", TEXT, one_referenced_attribute),
	META_GET("ReferencedEntity", TEXT, one_referenced),
	META_GET("ReferencingAttribute", TEXT, one_referencing_attribute),
	META_GET("ReferencingEntity", TEXT, one_referencing),
	META_FIXED("IsHierarchical", BOOL, "false"),
	META_FIXED("EntityKey", TEXT, NULL),
	META_FIXED("IsRelationshipAttributeDenormalized", BOOL, "false"),
	ONE_AT("ReferencedEntityNavigationPropertyName", collection),
	ONE_AT("ReferencingEntityNavigationPropertyName", navigation),
	META_FIXED("RelationshipBehavior", INT, "1"),
	META_FIXED("IsDenormalizedLookup", BOOL, NULL),
	META_FIXED("DenormalizedAttributeName", TEXT, NULL),
	META_PUT("AssociatedMenuConfiguration", put_menu),
	META_PUT("CascadeConfiguration", one_cascade),
	META_PUT("RelationshipAttributes", put_empty_array),
	META_END
};

static void
many_intersect(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_many *) item->object)->intersect->name);
}

static void
many_entity1(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_many *) item->object)->table1->name);
}

static void
many_entity2(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_many *) item->object)->table2->name);
}

static void
many_attribute1(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_many *) item->object)->column1->name);
}

static void
many_attribute2(const struct sim_meta_item *item, struct sim_meta_value *value)
{
	set_text(value, ((const struct sim_many *) item->object)->column2->name);
}

#define MANY_AT(n, f) META_AT(n, TEXT, TEXT, struct sim_many, f)

static const struct sim_meta_prop many_to_many_props[] = {
	META_GET("Entity1LogicalName", TEXT, many_entity1),
	META_GET("Entity2LogicalName", TEXT, many_entity2),
	META_GET("IntersectEntityName", TEXT, many_intersect),
	META_GET("Entity1IntersectAttribute", TEXT, many_attribute1),
	META_GET("Entity2IntersectAttribute", TEXT, many_attribute2),
	MANY_AT("Entity1NavigationPropertyName", navigation1),
	MANY_AT("Entity2NavigationPropertyName", navigation2),
	META_PUT("Entity1AssociatedMenuConfiguration", put_menu),
	META_PUT("Entity2AssociatedMenuConfiguration", put_menu),
	META_END
};

const struct sim_meta_type sim_meta_relationship = {
	.name = "RelationshipMetadataBase",
	.key = "SchemaName",
	.groups = {relationship_props}
};

const struct sim_meta_type sim_meta_one_to_many = {
	.name = "OneToManyRelationshipMetadata",
	.base = &sim_meta_relationship,
	.key = "SchemaName",
	.groups = {relationship_props, one_to_many_props}
};

const struct sim_meta_type sim_meta_many_to_many = {
	.name = "ManyToManyRelationshipMetadata",
	.base = &sim_meta_relationship,
	.key = "SchemaName",
	.groups = {relationship_props, many_to_many_props}
};
