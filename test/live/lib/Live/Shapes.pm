# Shapes.pm
#		The shapes of requests that the extension sends: one line for each, with
#		its source, and the code that splits a request of dvsim's journal.
#
# A request consists of pieces, and each piece is of a kind: the request line, a part of a
# $batch, an option, an operator or a literal of a filter, an element or an attribute of
# FetchXML, a header, a member of a body.  Each piece of each request must match a shape of
# its kind, so a new piece cannot be missed here (test/t/live/live_check.pl,
# test/t/read/differential_joins.pl).
#
# SPDX-License-Identifier: PostgreSQL

package Live::Shapes;

use strict;
use warnings;

use JSON::PP ();

my $learn = 'https://learn.microsoft.com/power-apps/developer/data-platform';
my $entra = 'https://learn.microsoft.com/entra/identity';
my $fetch = "$learn/fetchxml";

# placeholders for values in a line: ID, KEY (of an alternate key), '…', and the name of a set
my $set = qr/[A-Za-z_]\w*/;
my $message = qr/Microsoft\.Dynamics\.CRM\./;

# name, kind, pattern, the request in readable form, source: page, or "inferred" and the reason
my @shapes = (

	# ---- tokens
	[ 'token', 'token', qr{^POST /\S+/oauth2/v2\.0/token client_id&client_secret&grant_type=client_credentials&scope=/\.default$},
		'POST TENANT/oauth2/v2.0/token', "$entra-platform/v2-oauth2-client-creds-grant-flow" ],
	[ 'token-certificate', 'token',
		qr{^POST /\S+/oauth2/v2\.0/token client_assertion&client_assertion_type&client_id&grant_type=client_credentials&scope=/\.default$},
		'the same, with a signed assertion in place of the secret', "$entra-platform/certificate-credentials" ],
	[ 'token-identity', 'token', qr{^GET /metadata/identity/oauth2/token (?:api-version&client_id&resource|api-version&resource)$},
		'GET metadata/identity/oauth2/token', "$entra/managed-identities-azure-resources/how-to-use-vm-token" ],

	# ---- headers
	[ 'headers', 'header', qr{^(?:accept: application/json|odata-version: 4\.0|odata-maxversion: 4\.0|if-none-match: null|authorization: bearer|content-type: application/json(?:; charset=utf-8)?|user-agent: dataverse_fdw)$},
		'Accept, OData-Version, OData-MaxVersion, If-None-Match, Authorization, Content-Type', "$learn/webapi/compose-http-requests-handle-errors" ],
	[ 'consistency', 'header', qr{^consistency: Strong$}, 'Consistency: Strong', "$learn/webapi/compose-http-requests-handle-errors" ],
	[ 'request-id', 'header', qr{^x-ms-client-request-id: ID$}, 'x-ms-client-request-id', "inferred: Microsoft's clients send it" ],
	[ 'gzip', 'header', qr{^accept-encoding: gzip$}, 'Accept-Encoding: gzip', "$learn/webapi/use-ps-and-vscode-web-api" ],
	[ 'cookie', 'header', qr{^cookie: ARRAffinity}, 'the cookie ARRAffinity, with `affinity_cookie`', "$learn/send-parallel-requests" ],
	[ 'caller', 'header', qr{^callerobjectid: ID$}, 'CallerObjectId', "$learn/webapi/impersonate-another-user-web-api" ],
	[ 'session-token', 'header', qr{^mscrm\.sessiontoken: \S+$}, 'MSCRM.SessionToken', "$learn/use-elastic-tables" ],
	[ 'bypass-logic', 'header', qr{^mscrm\.bypassbusinesslogicexecution: (?:CustomSync|CustomAsync|CustomSync,CustomAsync)$},
		'MSCRM.BypassBusinessLogicExecution', "$learn/bypass-custom-business-logic" ],
	[ 'bypass-flows', 'header', qr{^mscrm\.suppresscallbackregistrationexpanderjob: true$}, 'MSCRM.SuppressCallbackRegistrationExpanderJob', "$learn/bypass-power-automate-flows" ],
	[ 'detect-duplicates', 'header', qr{^mscrm\.suppressduplicatedetection: false$}, 'MSCRM.SuppressDuplicateDetection: false', "$learn/optional-parameters" ],
	[ 'page-size', 'preference', qr{^odata\.maxpagesize=\d+$}, 'Prefer: odata.maxpagesize', "$learn/webapi/query/page-results" ],
	[ 'prefer-annotations', 'preference', qr{^odata\.include-annotations="\*"$}, 'Prefer: odata.include-annotations="*"', "$learn/webapi/compose-http-requests-handle-errors" ],
	[ 'read-annotations', 'preference', qr{^odata\.include-annotations="(?:(?:OData\.Community\.Display\.V1\.FormattedValue|Microsoft\.Dynamics\.CRM\.(?:lookuplogicalname|globalmetadataversion)),?)+"$},
		'… of labels and of the tables that lookups refer to', "$learn/webapi/query/select-columns" ],
	[ 'metadata-version', 'preference', qr{globalmetadataversion}, '… of the version of the definitions', "$learn/webapi/compose-http-requests-handle-errors" ],
	[ 'fetchxml-annotations', 'preference', qr{^odata\.include-annotations="Microsoft\.Dynamics\.CRM\.fetchxmlpagingcookie,Microsoft\.Dynamics\.CRM\.morerecords"$},
		'… of the pages of FetchXML', "$learn/fetchxml/page-results" ],
	[ 'track-changes', 'preference', qr{^odata\.track-changes$}, 'Prefer: odata.track-changes', "$learn/use-change-tracking-synchronize-data-external-systems" ],
	[ 'batch-continue', 'preference', qr{^odata\.continue-on-error$}, 'Prefer: odata.continue-on-error', "$learn/webapi/execute-batch-operations-using-web-api" ],
	[ 'if-match', 'header', qr{^if-match: \*$}, 'If-Match: *', "$learn/webapi/perform-conditional-operations-using-web-api" ],
	[ 'if-match-version', 'header', qr{^if-match: W/"\d+"$}, 'If-Match: W/"VERSIONNUMBER"', "$learn/webapi/perform-conditional-operations-using-web-api" ],

	# ---- functions and definitions
	[ 'whoami', 'request', qr{^GET WhoAmI$}, 'GET WhoAmI', "$learn/webapi/use-web-api-functions" ],
	[ 'row-count', 'request', qr{^GET RetrieveTotalRecordCount\(EntityNames=\@p1\)\?\@p1=\["\w+"\]$},
		'GET RetrieveTotalRecordCount(EntityNames=@p1)', "$learn/webapi/query/count-rows" ],
	[ 'entity-set', 'request', qr{^GET EntityDefinitions\(LogicalName='…'\)\?\$select=EntitySetName$}, 'GET EntityDefinitions(LogicalName=\'…\')?$select=EntitySetName', "$learn/webapi/query-metadata-web-api" ],
	[ 'catalog', 'request', qr{^GET EntityDefinitions\?\$select=[\w,]+$}, 'GET EntityDefinitions?$select=…', "$learn/webapi/query-metadata-web-api" ],
	[ 'changes', 'request', qr{^GET RetrieveMetadataChanges\(Query=\@p1\)\?\@p1=\{…\}$}, 'GET RetrieveMetadataChanges(Query=@p1)', "$learn/query-schema-definitions" ],
	[ 'changes-tables', 'definition', qr{^Criteria: Or of LogicalName Equals System\.String$}, '… its `Criteria`: fifty tables at a time, by `Or` of `Equals`', "$learn/query-schema-definitions" ],
	[ 'changes-properties', 'definition', qr{^(?:Properties|(?:Attribute|Relationship|Key)Query): AllProperties,PropertyNames$},
		'… its `Properties`, `AttributeQuery`, `RelationshipQuery`, `KeyQuery`', "$learn/query-schema-definitions" ],
	[ 'changes-labels', 'definition', qr{^LabelQuery: FilterLanguages,MissingLabelBehavior$}, '… its `LabelQuery`', "$learn/query-schema-definitions" ],
	[ 'language-user', 'request', qr{^GET EntityDefinitions\(LogicalName='…'\)\?\$select=DisplayName$}, 'GET EntityDefinitions(LogicalName=\'…\')?$select=DisplayName', "$learn/webapi/query-metadata-web-api" ],
	[ 'language-base', 'request', qr{^GET organizations\?\$select=languagecode$}, 'GET organizations?$select=languagecode', "$learn/reference/entities/organization" ],
	[ 'definition', 'request', qr{^GET EntityDefinitions\(LogicalName='…'\)\?\$select=MetadataId,ChangeTrackingEnabled&\$expand=Attributes\(\$select=[\w,]+\)$},
		'GET EntityDefinitions(LogicalName=\'…\')?$select=…&$expand=Attributes($select=…)', "$learn/webapi/query-metadata-web-api" ],
	[ 'plain-table', 'request', qr{^GET EntityDefinitions\(LogicalName='…'\)\?\$select=[\w,]+&\$expand=Attributes\(\$select=[\w,]+\),ManyToOneRelationships\(\$select=[\w,]+\),Keys\(\$select=[\w,]+\)(?:&LabelLanguages=\d+)?$},
		'GET EntityDefinitions(LogicalName=\'…\')?$select=…&$expand=Attributes($select=…),ManyToOneRelationships(…),Keys(…)', 'inferred: only `Attributes` is shown in `$expand`' ],
	[ 'plain-cast', 'request', qr{^GET EntityDefinitions\(LogicalName='…'\)/Attributes/${message}\w+AttributeMetadata\?\$select=[\w,]+$},
		'GET EntityDefinitions(LogicalName=\'…\')/Attributes/Microsoft.Dynamics.CRM.TYPEAttributeMetadata?$select=…', "$learn/webapi/query-metadata-web-api" ],
	[ 'plain-choices', 'request', qr{^GET EntityDefinitions\(LogicalName='…'\)/Attributes/${message}\w+AttributeMetadata\?\$select=\w+&\$expand=OptionSet\(\$select=[\w,]+\),GlobalOptionSet\(\$select=[\w,]+\)(?:&LabelLanguages=\d+)?$},
		'… with `$expand=OptionSet($select=…),GlobalOptionSet($select=…)`', "$learn/webapi/retrieve-metadata-name-metadataid" ],
	[ 'label-language', 'option', qr{^LabelLanguages=\d+$}, '`LabelLanguages`', "$learn/webapi/query-metadata-web-api" ],
	[ 'sides', 'request', qr{^GET RelationshipDefinitions/${message}ManyToManyRelationshipMetadata\?\$select=[\w,]+$},
		'GET RelationshipDefinitions/Microsoft.Dynamics.CRM.ManyToManyRelationshipMetadata', "$learn/webapi/query-metadata-web-api" ],
	[ 'expiry', 'request', qr{^GET organizations\?\$select=expirechangetrackingindays$}, 'GET organizations?$select=expirechangetrackingindays', "$learn/reference/entities/organization" ],
	[ 'components', 'request', qr{^GET solutioncomponents\?\$select=objectid&\$filter=componenttype eq 1 and solutionid/uniquename eq '…'$},
		'GET solutioncomponents?…', "$learn/reference/entities/solutioncomponent" ],
	[ 'solutions', 'request', qr{^GET solutions\?\$select=uniquename&\$filter=isvisible eq true&\$orderby=uniquename$}, 'GET solutions', "$learn/reference/entities/solution" ],

	# ---- queries
	[ 'select', 'request', qr{^GET $set\?\$select=[\w,]+(?:&\$(?:filter|orderby|top|skiptoken|deltatoken)=[^&]*|&partitionId=[^&]*)*$},
		'GET SET?$select=…&$filter=…&$orderby=…', "$learn/webapi/query/overview" ],
	[ 'order', 'option', qr{^\$orderby=\w+(?:,\w+)*$}, '$orderby=…,ID', "$learn/webapi/query/order-rows" ],
	[ 'order-descending', 'option', qr{^\$orderby=.*\w desc(?:,|$)}, '$orderby=… desc', "$learn/webapi/query/order-rows" ],
	[ 'top', 'option', qr{^\$top=\d+$}, '$top', "$learn/webapi/query/overview" ],
	[ 'partition', 'option', qr{^partitionId=\S+$}, '`partitionId` of a query', "$learn/use-elastic-tables" ],
	[ 'next-link', 'option', qr{^\$skiptoken=.+$}, 'the link to the next page', "$learn/webapi/query/page-results" ],
	[ 'delta-link', 'option', qr{^\$deltatoken=.+$}, 'the link to the changes since then', "$learn/use-change-tracking-synchronize-data-external-systems" ],
	[ 'delta-count', 'request', qr{^GET $set/\$count\?\$deltatoken=[^&]+$}, 'GET SET/$count?$deltatoken=…', "$learn/use-change-tracking-synchronize-data-external-systems" ],
	[ 'apply-count', 'request', qr{^GET $set\?\$apply=aggregate\(\$count as n\)$}, '$apply=aggregate($count as n)', 'inferred: $count is shown with groupby only' ],
	[ 'apply-filter', 'request', qr{^GET $set\?\$apply=filter\(.*\)/aggregate\(\$count as n\)$}, '$apply=filter(…)/aggregate($count as n)', 'inferred: $count and filter() are shown with groupby only, and no functions in filter()' ],
	[ 'filter-eq', 'operator', qr{^eq$}, 'eq', "$learn/webapi/query/filter-rows" ],
	[ 'filter-ne', 'operator', qr{^ne$}, 'ne', "$learn/webapi/query/filter-rows" ],
	[ 'filter-range', 'operator', qr{^(?:gt|ge|lt|le)$}, 'gt, ge, lt, le', "$learn/webapi/query/filter-rows" ],
	[ 'filter-range-of-ids', 'operator', qr{^(?:gt|ge|lt|le) ID$}, '… with an id', 'inferred: `accountid gt …` is shown for `?sql=` only' ],
	[ 'filter-null', 'operator', qr{^eq null$}, 'eq null', "$learn/webapi/query/filter-rows" ],
	[ 'filter-not-null', 'operator', qr{^ne null$}, 'ne null', "$learn/webapi/query/filter-rows" ],
	[ 'filter-and', 'operator', qr{^and$}, '`and`', "$learn/webapi/query/filter-rows" ],
	[ 'filter-or', 'operator', qr{^or$}, '`or`, with parentheses', "$learn/webapi/query/filter-rows" ],
	[ 'filter-starts-with', 'operator', qr{^startswith$}, 'startswith(…)', "$learn/webapi/query/filter-rows" ],
	[ 'filter-ends-with', 'operator', qr{^endswith$}, 'endswith(…)', "$learn/webapi/query/filter-rows" ],
	[ 'filter-contains', 'operator', qr{^contains$}, 'contains(…)', "$learn/wildcard-characters" ],
	[ 'filter-in', 'operator', qr{^In$}, "Microsoft.Dynamics.CRM.In(PropertyName='…',PropertyValues=[\"…\"])", "$learn/webapi/query/filter-rows" ],
	[ 'filter-not-in', 'operator', qr{^NotIn$}, 'Microsoft.Dynamics.CRM.NotIn(…)', "$learn/webapi/query/filter-rows" ],
	[ 'filter-contain-values', 'operator', qr{^ContainValues$}, 'Microsoft.Dynamics.CRM.ContainValues(…)', "inferred: the value is shown in single quotes" ],
	[ 'literal-text', 'literal', qr{^'…'$}, 'text in a filter', "$learn/webapi/query/filter-rows" ],
	[ 'literal-id', 'literal', qr{^ID$}, 'an id in a filter', "$learn/webapi/query/filter-rows" ],
	[ 'literal-number', 'literal', qr{^-?\d+(?:\.\d+)?(?:e[-+]?\d+)?$}, 'a number in a filter', "$learn/webapi/query/filter-rows" ],
	[ 'literal-boolean', 'literal', qr{^(?:true|false)$}, '`true`, `false` in a filter', "$learn/webapi/query/filter-rows" ],
	[ 'literal-date', 'literal', qr{^\d{4}-\d\d-\d\d$}, 'a date in a filter', "$learn/webapi/query/filter-rows" ],
	[ 'literal-time', 'literal', qr{^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$}, 'a time in a filter', "$learn/webapi/query/filter-rows" ],
	[ 'verify', 'request', qr{^GET $set\?\$select=\w+(?:,(?:createdon|overriddencreatedon))?&\$filter=\w+ eq ID(?: or \w+ eq ID)*$},
		'GET SET?$select=ID,createdon&$filter=ID eq … or ID eq …', "$learn/webapi/query/filter-rows" ],
	[ 'fetchxml', 'request', qr{^GET $set\?fetchXml=…(?:&partitionId=[^&]*)?$}, 'GET SET?fetchXml=…', "$fetch/retrieve-data" ],

	# ---- FetchXML: elements in their parents, attributes, and values if there are few
	[ 'fetch-columns', 'fetch', qr{^(?:<fetch>|<fetch><entity>|entity name|<(?:entity|link-entity)><attribute>|attribute name)$},
		'`<entity name>`, `<attribute name>`', "$fetch/select-columns" ],
	[ 'fetch-alias', 'fetch', qr{^attribute alias$}, '`<attribute alias>`', "$fetch/select-columns" ],
	[ 'fetch-page', 'fetch', qr{^fetch (?:count|page)$}, '`<fetch count page>`', "$fetch/page-results" ],
	[ 'fetch-cookie', 'fetch', qr{^fetch paging-cookie$}, '`<fetch paging-cookie>`', "$fetch/page-results" ],
	[ 'fetch-top', 'fetch', qr{^fetch top$}, '`<fetch top>`', "$fetch/reference/fetch" ],
	[ 'fetch-link', 'fetch', qr{^(?:<(?:entity|link-entity)><link-entity>|link-entity (?:name|from|to|alias)|link-entity link-type=inner)$},
		'`<link-entity name from to link-type=\'inner\' alias>`', "$fetch/join-tables" ],
	[ 'fetch-link-outer', 'fetch', qr{^link-entity link-type=outer$}, "`link-type='outer'`", "$fetch/join-tables" ],
	[ 'fetch-link-exists', 'fetch', qr{^link-entity link-type=exists$}, "`link-type='exists'`", "$fetch/join-tables" ],
	[ 'fetch-link-not-any', 'fetch', qr{^(?:<filter><link-entity>|link-entity link-type=not any)$}, "`link-type='not any'` in a filter", "$fetch/filter-rows" ],
	[ 'fetch-filter', 'fetch', qr{^(?:<(?:entity|link-entity|filter)><filter>|<filter><condition>|condition (?:attribute|value))$},
		'`<filter>`, `<condition attribute operator value>`', "$fetch/filter-rows" ],
	[ 'fetch-or', 'fetch', qr{^filter type=or$}, "`<filter type='or'>`", "$fetch/filter-rows" ],
	[ 'fetch-equal', 'fetch', qr{^condition operator=(?:eq|ne)$}, 'operators `eq`, `ne`', "$fetch/reference/operators" ],
	[ 'fetch-range', 'fetch', qr{^condition operator=(?:gt|ge|lt|le)$}, 'operators `gt`, `ge`, `lt`, `le`', "$fetch/reference/operators" ],
	[ 'fetch-range-of-ids', 'fetch', qr{^condition operator=(?:gt|ge|lt|le) ID$}, '… with an id', 'inferred: the list of operators does not name ids, but the page of `?sql=` compares them so' ],
	[ 'fetch-null', 'fetch', qr{^condition operator=(?:null|not-null)$}, 'operators `null`, `not-null`', "$fetch/reference/operators" ],
	[ 'fetch-in', 'fetch', qr{^(?:condition operator=in|<condition><value>)$}, 'operator `in`, `<value>`', "$fetch/filter-rows" ],
	[ 'fetch-not-in', 'fetch', qr{^condition operator=not-in$}, 'operator `not-in`', 'inferred: the list of operators has it for numbers only' ],
	[ 'fetch-text', 'fetch', qr{^condition operator=(?:begins-with|ends-with|like)$}, 'operators `begins-with`, `ends-with`, `like`', "$learn/wildcard-characters" ],
	[ 'fetch-contain-values', 'fetch', qr{^condition operator=contain-values$}, 'operator `contain-values`', "$fetch/reference/operators" ],
	[ 'fetch-columns-compared', 'fetch', qr{^condition valueof$}, '`<condition valueof>`', "$fetch/filter-rows" ],
	[ 'fetch-order', 'fetch', qr{^(?:<entity><order>|order attribute|order descending=true)$}, '`<order attribute descending>`', "$fetch/order-rows" ],
	[ 'fetch-aggregate', 'fetch', qr{^(?:fetch aggregate=true|attribute aggregate=(?:count|countcolumn|sum|min|max))$},
		"`<fetch aggregate='true'>`, `<attribute aggregate>`", "$fetch/aggregate-data" ],
	[ 'fetch-distinct', 'fetch', qr{^attribute distinct=true$}, "`<attribute distinct='true'>`", "$fetch/aggregate-data" ],
	[ 'fetch-group', 'fetch', qr{^attribute groupby=true$}, "`<attribute groupby='true'>`", "$fetch/aggregate-data" ],
	[ 'fetch-group-date', 'fetch', qr{^attribute (?:dategrouping=(?:year|month|day)|usertimezone=false)$}, "`dategrouping`, `usertimezone='false'`", "$fetch/aggregate-data" ],

	# ---- writes
	[ 'create-multiple', 'request', qr{^POST $set/${message}CreateMultiple(?:\?tag=.*)?$}, 'POST SET/Microsoft.Dynamics.CRM.CreateMultiple', "$learn/bulk-operations" ],
	[ 'update-multiple', 'request', qr{^POST $set/${message}UpdateMultiple(?:\?tag=.*)?$}, 'POST SET/Microsoft.Dynamics.CRM.UpdateMultiple', "$learn/bulk-operations" ],
	[ 'upsert-multiple', 'request', qr{^POST $set/${message}UpsertMultiple(?:\?tag=.*)?$}, 'POST SET/Microsoft.Dynamics.CRM.UpsertMultiple', "$learn/bulk-operations" ],
	[ 'delete-multiple', 'request', qr{^POST $set/${message}DeleteMultiple(?:\?tag=.*)?$}, 'POST SET/Microsoft.Dynamics.CRM.DeleteMultiple', "$learn/bulk-operations" ],
	[ 'odata-type', 'member', qr{^\@odata\.type: string$}, '"@odata.type":"Microsoft.Dynamics.CRM.TABLE"', "$learn/bulk-operations" ],
	[ 'upsert-by-key', 'reference', qr{^$set\(KEY\)$}, '"@odata.id":"SET(key=\'…\')"', "$learn/bulk-operations" ],
	[ 'key-unencoded', 'reference', qr{^$set\(KEY\) unencoded$}, '… with blanks and letters as they are', "inferred: Microsoft's clients write it so" ],
	[ 'bind', 'member', qr{^\w+\@odata\.bind: /$set\((?:ID|KEY)\)$}, '"NAVIGATION@odata.bind":"/SET(ID)"', "$learn/webapi/associate-disassociate-entities-using-web-api" ],
	[ 'lookup-null', 'member', qr{^\w+id(?:_\w+)?: null$}i, '"NAVIGATION":null', "$learn/webapi/associate-disassociate-entities-using-web-api" ],
	[ 'value-text', 'member', qr{^\w+: string$}, 'texts, ids, dates, choices and images, as JSON strings', "$learn/webapi/create-entity-web-api" ],
	[ 'value-number', 'member', qr{^\w+: number$}, 'numbers and choices, as JSON numbers', "$learn/webapi/create-entity-web-api" ],
	[ 'value-boolean', 'member', qr{^\w+: boolean$}, '`true`, `false`', "$learn/webapi/create-entity-web-api" ],
	[ 'value-null', 'member', qr{^(?!\w+id(?:_\w+)?:)\w+: null$}i, '`null`', 'inferred: null is shown for lookups only' ],
	[ 'tag', 'option', qr{^tag=.+$}, '?tag=…', "$learn/optional-parameters" ],
	[ 'batch', 'request', qr{^POST \$batch$}, 'POST $batch', "$learn/webapi/execute-batch-operations-using-web-api" ],
	[ 'batch-headers', 'header', qr{^(?:content-type: multipart/mixed; boundary=batch_dataverse_fdw|content-type: application/http|content-transfer-encoding: binary|content-id: \d+)$},
		'its boundary, `Content-Transfer-Encoding`, `Content-ID`', "$learn/webapi/execute-batch-operations-using-web-api" ],
	[ 'change-set', 'part', qr{^change set$}, 'a change set in a `$batch`', "$learn/webapi/execute-batch-operations-using-web-api" ],
	[ 'part-read', 'part', qr{^GET $set\?}, 'GET SET?…', "$learn/webapi/execute-batch-operations-using-web-api" ],
	[ 'part-search', 'part', qr{^GET $set\?\$select=\w+&\$top=2&\$filter=\w+ eq (?:'…'|[-+:.\w]+)(?: and \w+ eq (?:'…'|[-+:.\w]+))*$},
		'GET SET?$select=ID&$top=2&$filter=KEY eq …, for keys that cannot be in addresses', "$learn/use-alternate-key-reference-record" ],
	[ 'part-create', 'part', qr{^POST $set(?:\?tag=.*)?$}, 'POST SET', "$learn/webapi/create-entity-web-api" ],
	[ 'part-update', 'part', qr{^PATCH $set\(ID\)(?:\?tag=.*)? if-match$}, 'PATCH SET(ID)', "$learn/webapi/update-delete-entities-using-web-api" ],
	[ 'part-upsert', 'part', qr{^PATCH $set\(ID\)(?:\?tag=.*)?$}, 'PATCH SET(ID)', "$learn/webapi/update-delete-entities-using-web-api" ],
	[ 'part-upsert-by-key', 'part', qr{^PATCH $set\(KEY\)(?:\?tag=.*)?$}, "PATCH SET(key='…')", "$learn/use-alternate-key-reference-record" ],
	[ 'part-delete', 'part', qr{^DELETE $set\(ID\)(?:\?tag=.*)?$}, 'DELETE SET(ID)', "$learn/webapi/update-delete-entities-using-web-api" ],
	[ 'part-delete-version', 'part', qr{^DELETE $set\(ID\)(?:\?tag=.*)? if-match$}, 'DELETE SET(ID)', "$learn/webapi/perform-conditional-operations-using-web-api" ],
	[ 'part-associate', 'part', qr{^POST $set\(ID\)/\w+/\$ref$}, 'POST SET(ID)/NAVIGATION/$ref', "$learn/webapi/associate-disassociate-entities-using-web-api" ],
	[ 'associate-reference', 'reference', qr{^https?://[^/]+/api/data/v[\d.]+/$set\(ID\)$}, '"@odata.id":"https://…/SET(ID)"', "$learn/webapi/associate-disassociate-entities-using-web-api" ],
	[ 'part-disassociate', 'part', qr{^DELETE $set\(ID\)/\w+\(ID\)/\$ref$}, 'DELETE SET(ID)/NAVIGATION(ID)/$ref', "$learn/webapi/associate-disassociate-entities-using-web-api" ],
	[ 'row-in-partition', 'request|part', qr{^(?:PATCH|DELETE) $set\(\w+=ID,partitionid='…'\)(?:\?tag=.*)?(?: if-match)?$},
		"PATCH SET(ID=…,partitionid='…')", "$learn/use-elastic-tables" ],
	[ 'row-with-partition', 'request|part', qr{^DELETE $set\(ID\)\?partitionId=[^&]+(?:&tag=.*)?$}, 'DELETE SET(ID)?partitionId=…', "$learn/use-elastic-tables" ],

	# ---- jobs
	[ 'bulk-delete', 'request', qr{^POST BulkDelete$}, 'POST BulkDelete', "$learn/delete-data-bulk" ],
	[ 'bulk-delete-query', 'member', qr{^(?:QuerySet|EntityName|ColumnSet|AllColumns|Columns|Distinct|JobName|SendEmailNotification|ToRecipients|CCRecipients|RecurrencePattern|StartDateTime): (?:string|boolean|object|array)$},
		'… with a QueryExpression without conditions', "$learn/delete-data-bulk" ],
	[ 'job', 'request', qr{^GET asyncoperations\(ID\)\?\$select=statecode,statuscode,message$}, 'GET asyncoperations(ID)', "$learn/reference/entities/asyncoperation" ],
	[ 'job-counts', 'request', qr{^GET bulkdeleteoperations\?\$filter=_asyncoperationid_value eq ID&\$select=bulkdeleteoperationid,successcount,failurecount$},
		'GET bulkdeleteoperations', "$learn/reference/entities/bulkdeleteoperation" ],
	[ 'job-failures', 'request', qr{^GET bulkdeletefailures\?\$filter=_bulkdeleteoperationid_value eq ID&\$select=errordescription&\$top=1$},
		'GET bulkdeletefailures', "$learn/reference/entities/bulkdeletefailure" ],

	# ---- dataverse.request()
	[ 'request-create', 'request', qr{^POST (?!BulkDelete)$set$}, 'POST SET', "$learn/webapi/create-entity-web-api" ],
	[ 'request-update', 'request', qr{^PATCH $set\(ID\)$}, 'PATCH SET(ID)', "$learn/webapi/update-delete-entities-using-web-api" ],
	[ 'request-put', 'request', qr{^PUT $set\(ID\)/\w+$}, 'PUT SET(ID)/COLUMN', "$learn/webapi/update-delete-entities-using-web-api" ],
	[ 'request-delete', 'request', qr{^DELETE $set\(ID\)$}, 'DELETE SET(ID)', "$learn/webapi/update-delete-entities-using-web-api" ],
	[ 'request-read', 'request', qr{^GET $set\(ID\)\?\$select=\w+$}, 'GET SET(ID)?$select=…', "$learn/webapi/retrieve-entity-using-web-api" ]);

sub names { return map { $_->[0] } @shapes; }

# The table of README.md.
sub table
{
	my (@steps) = @_;

	return (
		'| shape | request | source | step |',
		'|---|---|---|---|',
		map {
			my ($name, undef, undef, $request, $source) = @$_;
			my ($page) = $source =~ m{^https://.*/([^/]+)$};
			my @names = map { $_->[0] } grep { grep { $_ eq $name } @{ $_->[2] } } @steps;

			sprintf '| %s | %s | %s | %s |', $name, $request =~ /^(?:[A-Z]{3,6} |[\$?"']|Prefer:|If-Match:|MSCRM|CallerObjectId|x-ms|Accept-Enc|Microsoft|eq|ne|gt|startswith|endswith|contains)/ ? "`$request`" : $request,
			  ($page ? "[$page]($source)" : $source), join(', ', @names)
		} @shapes);
}

# ---------------------------------------------------------------- splitting requests

my $guid = qr/[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}/;

sub decoded
{
	my ($text) = @_;

	$text =~ s/%([0-9A-Fa-f]{2})/chr hex $1/ge;
	return $text;
}

# Ids, literals and keys become ID, '…' and KEY.
sub shape_of
{
	my ($text) = @_;

	$text =~ s/$guid/ID/g;
	$text =~ s/'(?:[^']|'')*'/'…'/g;
	$text =~ s{^(\w+)\((?!\w+=ID,partitionid=)\w+=(?:'…'|[-\w.]+)(?:,\w+=(?:'…'|[-\w.]+))*\)(?=$|[/?])}{$1(KEY)};
	return $text;
}

# Path and options, each decoded after splitting, so that an "&" in a value does not separate.
sub line_of
{
	my ($method, $target) = @_;
	my ($path, $query) = split /\?/, $target =~ s{^(?:https?://[^/]+)?/api/data/v[^/]+/}{}r, 2;
	my @options = map { /^fetchXml=/ ? decoded($_) : shape_of(decoded($_)) } split /&/, $query // '';

	$path = shape_of(decoded($path));
	$path =~ s/^(EntityDefinitions)\(KEY\)/$1(LogicalName='…')/;
	$path =~ s/^(Retrieve\w+)\(KEY\)/$1/;
	# its pieces describe its content
	my @shown = map { s/^(fetchXml=).*/$1…/sr } map { $path =~ /^RetrieveMetadataChanges\b/ ? s/^(\@p1=)\{.*\}$/$1\{…\}/sr : $_ } @options;
	return ("$method $path" . (@shown ? '?' . join('&', @shown) : ''), @options);
}

# Each condition as its operators and literals; the rest is an operator without a shape.
sub filter_pieces
{
	my ($filter) = @_;
	my @pieces;

	while (length $filter)
	{
		if ($filter =~ s/^\s+|^[()]//) { next }
		elsif ($filter =~ s/^(and|or)\b//) { push @pieces, [ operator => $1 ] }
		elsif ($filter =~ s/^(startswith|endswith|contains)\(\w+,('…')\)//) { push @pieces, [ operator => $1 ], [ literal => $2 ] }
		elsif ($filter =~ s/^${message}(\w+)\(PropertyName='…',PropertyValues=\[(?:"(?:[^"\\]|\\.)*",?)*\]\)//) { push @pieces, [ operator => $1 ] }
		elsif ($filter =~ s/^[\w\/]+ (eq|ne) null\b//) { push @pieces, [ operator => "$1 null" ] }
		elsif ($filter =~ s/^[\w\/]+ ([gl][te]) ID\b//) { push @pieces, [ operator => "$1 ID" ] }
		elsif ($filter =~ s/^[\w\/]+ (eq|ne|gt|ge|lt|le) ('…'|[-+:.\w]+)//) { push @pieces, [ operator => $1 ], [ literal => $2 ] }
		else { push @pieces, [ operator => $filter ]; last }
	}
	return @pieces;
}

# The members of a query for definitions.
sub definition_pieces
{
	my ($json) = @_;
	my $query = JSON::PP->new->decode($json);
	my @pieces;

	for my $name (sort keys %$query)
	{
		my $part = $query->{$name};
		my $text = join ',', sort keys %{ $part->{Properties} // $part };

		if ($name eq 'Criteria')
		{
			my %forms = map { ("$_->{PropertyName} $_->{ConditionOperator} $_->{Value}{Type}" => 1) } @{ $part->{Conditions} };
			$text = "$part->{FilterOperator} of " . join(',', sort keys %forms);
		}
		push @pieces, [ definition => "$name: $text" ];
	}
	return @pieces;
}

# attributes of FetchXML with few values
my %listed = map { $_ => 1 } (
	(map { "fetch $_" } qw(aggregate distinct useraworderby no-lock returntotalrecordcount latematerialize datasource options)),
	(map { "attribute $_" } qw(aggregate groupby dategrouping usertimezone distinct rowaggregate)),
	(map { "link-entity $_" } qw(link-type intersect)),
	'filter type', 'filter hint', 'condition operator', 'order descending');

# Each element with its parent, and each attribute.  Malformed XML is a piece without a shape.
sub fetch_pieces
{
	my ($xml) = @_;
	my (@pieces, @parents);

	while ($xml =~ /\G(?!\z)/gc)
	{
		if (@parents && $xml =~ m{\G</$parents[-1]\s*>}gc) { pop @parents }
		elsif ($xml =~ m{\G<([\w-]+)((?:\s+[\w-]+\s*=\s*(?:'[^'<]*'|"[^"<]*"))*)\s*(/?)>}gc)
		{
			my ($name, $attributes, $empty) = ($1, $2, $3);
			my %value = map { s/^["']|["']$//gr } $attributes =~ /([\w-]+)\s*=\s*('[^']*'|"[^"]*")/g;
			my $of_id = ($value{value} // '') =~ /^\{?$guid\}?$/ && ($value{operator} // '') =~ /^[gl][te]$/ ? ' ID' : '';

			push @pieces, (@parents ? "<$parents[-1]>" : '') . "<$name>",
			  map { $listed{"$name $_"} ? "$name $_=$value{$_}" . ($_ eq 'operator' ? $of_id : '') : "$name $_" } sort keys %value;
			push @parents, $name unless $empty;
		}
		elsif ($xml =~ /\G\s+/gc || @parents && $parents[-1] eq 'value' && $xml =~ /\G[^<]+/gc) { }
		else { push @pieces, substr $xml, pos $xml; last }
	}
	push @pieces, "no end of <$parents[-1]>" if @parents;
	return map { [ fetch => $_ ] } @pieces;
}

sub option_pieces
{
	my @pieces;

	for my $option (@_)
	{
		# text that contains any character has been replaced by '…'
		if ($option =~ /^\$filter=(.*)/s) { push @pieces, filter_pieces($1) }
		elsif ($option =~ /^\$apply=filter\((.*)\)\/aggregate/s) { push @pieces, filter_pieces($1) }
		elsif ($option =~ /^\@p1=(\{.*\})$/s) { push @pieces, definition_pieces($1) }
		elsif ($option =~ /^fetchXml=(.*)/s) { push @pieces, fetch_pieces($1) }
		elsif ($option =~ /^(?:\$select|\$expand|\$apply|\@p1)=/) { next }
		else { push @pieces, [ option => $option ] }
	}
	return @pieces;
}

sub header_pieces
{
	my (%headers) = @_;
	my @pieces;

	for my $name (sort keys %headers)
	{
		my $value = shape_of($headers{$name});

		next if $name =~ /^(?:host|content-length|connection)$/i;
		if (lc $name eq 'prefer')
		{
			push @pieces, map { [ preference => $_ ] } $value =~ /([^,"]+(?:"[^"]*")?)/g;
			next;
		}
		$value = 'bearer' if lc $name eq 'authorization';
		push @pieces, [ header => lc($name) . ": $value" ];
	}
	return @pieces;
}

sub body_pieces
{
	my ($value) = @_;
	my @pieces;

	return map { body_pieces($_) } @$value if ref $value eq 'ARRAY';
	return unless ref $value eq 'HASH';
	for my $name (sort keys %$value)
	{
		my $member = $value->{$name};
		my $kind = ref $member eq 'ARRAY' ? 'array' : ref $member eq 'HASH' ? 'object' : JSON::PP::is_bool($member) ? 'boolean'
		  : !defined $member ? 'null' : JSON::PP->new->allow_nonref->encode($member) =~ /^"/ ? 'string' : 'number';

		# in bodies, nothing is percent-encoded: an encoded value would be a different one
		my $code = ($member // '') =~ /%[0-9A-Fa-f]{2}/ ? ' encoded' : ($member // '') =~ /[^\x21-\x7e]/ ? ' unencoded' : '';

		if ($name eq '@odata.id') { push @pieces, [ reference => shape_of($member) . $code ] }
		elsif ($name =~ /\@odata\.bind$/ && defined $member)
		{
			push @pieces, [ member => "$name: /" . shape_of($member =~ s{^/}{}r) ];
		}
		elsif ($name eq 'Targets') { }
		else { push @pieces, [ member => "$name: $kind" ] }
		push @pieces, body_pieces($member) if ref $member;
	}
	return @pieces;
}

# A $batch; its change set is a nested batch.
sub batch_pieces
{
	my ($body, $boundary) = @_;
	my @pieces;

	for my $part (split /^--\Q$boundary\E(?:--)?\r\n/m, $body)
	{
		next unless $part =~ /\S/;
		my ($head, $request) = split /\r\n\r\n/, $part, 2;
		my %head = $head =~ /^([-\w.]+): *([^\r\n]*)/mg;

		if (($head{'Content-Type'} // '') =~ /^multipart\/mixed; boundary=(.*)/)
		{
			push @pieces, [ part => 'change set' ], batch_pieces($request, $1);
			next;
		}
		my ($lines, $json) = split /\r\n\r\n/, $request, 2;
		my ($method, $target) = $lines =~ /^(\w+) (\S+) HTTP\/1\.1/;
		my %headers = $lines =~ /^([-\w.]+): *([^\r\n]*)/mg;
		my ($line, @options) = line_of($method // '', $target // '');

		push @pieces, [ part => $line . ($headers{'If-Match'} ? ' if-match' : '') ], header_pieces(%head), header_pieces(%headers), option_pieces(@options);
		push @pieces, body_pieces(JSON::PP->new->decode($json)) if ($json // '') =~ /\S/;
	}
	return @pieces;
}

# The pieces of a request of the journal, as pairs of kind and text.
sub pieces
{
	my ($request) = @_;
	my ($method, $target, $body) = @{$request}{qw(method target body)};
	my ($path, $form) = split /\?/, $target, 2;
	my %headers = %{ $request->{headers} };

	if ($path =~ m{/token$})
	{
		my @names = sort map { s/^(grant_type=\w+|\w[-\w]*).*/$1/sr } split /&/, $form // $body;

		@names = map { /^scope$/ ? 'scope=' . (($form // $body) =~ m{scope=[^&]*(%2F\.default)}i ? '/.default' : '') : $_ } @names;
		return [ token => "$method $path " . join '&', @names ];
	}
	my ($line, @options) = line_of($method, $target);
	my @pieces = ([ request => $line ], header_pieces(%headers), option_pieces(@options));

	if ($line eq 'POST $batch')
	{
		my ($boundary) = ($headers{'Content-Type'} // '') =~ /boundary=(.*)/;
		push @pieces, batch_pieces($body, $boundary // '');
	}
	elsif (length $body)
	{
		push @pieces, body_pieces(JSON::PP->new->decode($body));
	}
	return @pieces;
}

# The names of the shapes of a request, and its pieces without a shape.
sub shapes_of
{
	my ($request) = @_;
	my (%found, @unknown);

	for my $piece (pieces($request))
	{
		my ($kind, $text) = @$piece;
		my @names = map { $_->[0] } grep { $kind =~ /^(?:$_->[1])$/ && $text =~ $_->[2] } @shapes;

		@found{@names} = (1) x @names;
		push @unknown, "$kind: $text" unless @names;
	}
	return (\%found, @unknown);
}

1;
