/*
 * errors.c
 *		Symbolic names of the service's error codes.
 *
 * All codes that the simulator can raise itself or that a fault may inject,
 * ascending.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include "wire/errors.h"

#include <stddef.h>
#include <stdint.h>

struct error
{
	uint32_t	code;
	const char *name;
};

static const struct error errors[] = {
	{0x80040201, "InvalidXml"},
	{0x80040203, "InvalidArgument"},
	{0x80040216, "UnExpected"},
	{0x80040217, "ObjectDoesNotExist"},
	{0x80040220, "PrivilegeDenied"},
	{0x80040224, "IsvUnExpected"},
	{0x80040225, "unManagedidsusernotenabled"},
	{0x80040227, "CannotDeleteDueToAssociation"},
	{0x80040231, "PrincipalPrivilegeDenied"},
	{0x80040237, "DuplicateRecord"},
	{0x80040239, "InvalidDateTime"},
	{0x8004023b, "InvalidOperation"},
	{0x80040251, "TransactionNotStarted"},
	{0x80040255, "TransactionAborted"},
	{0x80040265, "IsvAborted"},
	{0x80040278, "InvalidCharactersInField"},
	{0x80040315, "NotSupported"},
	{0x80040333, "DuplicateRecordsFound"},
	{0x80040800, "SdkEntityDoesNotSupportMessage"},
	{0x80040c00, "ODataBatchChangeSetPartitionedRequestNotSupported"},
	{0x80040c0a, "ODataBatchChangeMultiplePartitionsNotSupported"},
	{0x80040c0b, "RequestRequirePartitionId"},
	{0x800410fd, "QueryBuilderDeserializeInvalidUseRawOrderBy"},
	{0x80041101, "QueryBuilderUnexpected"},
	{0x80041102, "QueryBuilderNoEntity"},
	{0x80041103, "QueryBuilderNoAttribute"},
	{0x80041104, "QueryBuilderLinkAttributesTypeMismatch"},
	{0x80041106, "QueryBuilderBad_Condition"},
	{0x80041107, "QueryBuilderAttribute_With_Aggregate"},
	{0x80041108, "QueryBuilderInvalid_Value"},
	{0x80041109, "QueryBuilderInvalid_Alias"},
	{0x8004110a, "QueryBuilderAlias_Does_Not_Exist"},
	{0x8004110c, "QueryBuilderValue_GreaterThanZero"},
	{0x8004110e, "QueryBuilderMultipleIntersectEntities"},
	{0x80041111, "QueryBuilderAttributePairMismatch"},
	{0x80041115, "QueryBuilderDeserializeInvalidDistinct"},
	{0x80041116, "QueryBuilderDeserializeInvalidMapping"},
	{0x80041117, "QueryBuilderDeserializeInvalidLinkType"},
	{0x80041118, "QueryBuilderDeserializeInvalidNoLock"},
	{0x80041119, "QueryBuilderDeserializeInvalidDescending"},
	{0x8004111a, "QueryBuilderDeserializeInvalidAggregate"},
	{0x8004111b, "QueryBuilderDeserializeInvalidGetMinActiveRowVersion"},
	{0x8004111c, "QueryBuilderDeserializeInvalidNode"},
	{0x8004111e, "QueryBuilderAttributeNotFound"},
	{0x8004111f, "QueryBuilderInvalidOrderType"},
	{0x80041120, "QueryBuilderInvalidConditionOperator"},
	{0x80041121, "QueryBuilderInvalidJoinOperator"},
	{0x80041122, "QueryBuilderInvalidFilterType"},
	{0x80041123, "QueryBuilderElementNotFound"},
	{0x80041128, "QueryBuilderEntitiesDontMatch"},
	{0x80041129, "QueryBuilderPagingOrderBy"},
	{0x8004112a, "QueryBuilderInvalidPagingCookie"},
	{0x8004112e, "QueryBuilderDeserializeInvalidGroupBy"},
	{0x8004112f, "QueryBuilderInvalidAggregateAttribute"},
	{0x80041130, "QueryBuilderDuplicateAlias"},
	{0x80041131, "QueryBuilderAttributeNotAllowedForAggregateOrderBy"},
	{0x80041132, "QueryBuilderAliasNotAllowedForNonAggregateOrderBy"},
	{0x80041133, "QueryBuilderAttributeRequiredForNonAggregateOrderBy"},
	{0x80041134, "QueryBuilderAliasRequiredForAggregateOrderBy"},
	{0x80041135, "QueryBuilderInvalidDateGrouping"},
	{0x80041136, "SqlArithmeticOverflowError"},
	{0x80041137, "QueryBuilderAttributeCannotBeGroupByAndAggregate"},
	{0x80041138, "QueryBuilderSerializationInvalidIsQuickFindFilter"},
	{0x80041139, "QueryBuilderInvalidAttributeValue"},
	{0x80041140, "QueryBuilderNoEntityKey"},
	{0x80041d52, "ExpiredOAuthToken"},
	{0x80044150, "unManagedidssqlerror"},
	{0x80044151, "unManagedidssqltimeouterror"},
	{0x8004418a, "RequestLengthTooLarge"},
	{0x8004419d, "InvalidAttributeMetadataForBulkOperation"},
	{0x8004430a, "OverRetrievalUpperLimitWithoutPagingCookie"},
	{0x8004430c, "TooManyConditionsInQuery"},
	{0x8004430d, "TooManyLinkEntitiesInQuery"},
	{0x8004430e, "TooManyConditionParametersInQuery"},
	{0x8004431a, "PicklistValueOutOfRange"},
	{0x8004432f, "IntegerValueOutOfRange"},
	{0x80044330, "DecimalValueOutOfRange"},
	{0x80044331, "StringLengthTooLong"},
	{0x80044352, "ExpiredVersionStamp"},
	{0x80044366, "InvalidNamePrefix"},
	{0x80044a02, "unManagedidsattachmentinvalidfilesize"},
	{0x80048105, "CascadeOperationConcurrentRequested"},
	{0x80048306, "unManagedIdsAccessDenied"},
	{0x80048405, "AccessDenied"},
	{0x80048408, "InvalidStateCodeStatusCode"},
	{0x80048543, "SolutionImportCauseTimeout"},
	{0x80048544, "DataEngineQueryThrottling"},
	{0x80048553, "DBUpgradeCauseTimeout"},
	{0x80048554, "SelfBlockedCauseTimeout"},
	{0x80048559, "DBConnectionOpenCircuitBreakerThrottling"},
	{0x80048573, "LeadingWildcardCauseTimeout"},
	{0x80048574, "ComputedColumnCauseTimeout"},
	{0x80048575, "PerformanceValidationIssuesCauseTimeout"},
	{0x80048644, "DataEngineLeadingWildcardQueryThrottling"},
	{0x80048744, "DataEngineComputedColumnQueryThrottling"},
	{0x80048745, "DataEnginePerformanceValidationIssuesQueryThrottling"},
	{0x80048d02, "IsvAbortedNotFound"},
	{0x80048d04, "IsvAbortedTooManyRequests"},
	{0x80048d08, "IsvAbortedConflict"},
	{0x80048d09, "IsvAbortedPreconditionFailed"},
	{0x80048d0b, "IsvAbortedBadRequest"},
	{0x80048d0c, "IsvAbortedMethodNotAllowed"},
	{0x80048d0f, "IsvAbortedBadGateway"},
	{0x80048d19, "ODataClientPayloadError"},
	{0x80048d2d, "BulkOperationMessagesDisabledError"},
	{0x80048d42, "SqlRowTooBigForSelect"},
	{0x80048d43, "SqlRowTooBigForInsertUpdate"},
	{0x8004a001, "CrmSqlGovernorDatabaseRequestDenied"},
	{0x8004e023, "AggregateQueryRecordLimitExceeded"},
	{0x80050544, "DataEngineSerializeQueryThrottling"},
	{0x8005f101, "AccessTokenExpired"},
	{0x8005f103, "Throttling"},
	{0x80060882, "ConcurrencyVersionMismatch"},
	{0x80060883, "ConcurrencyVersionNotProvided"},
	{0x80060888, "CrmHttpClientError"},
	{0x80060889, "EntityKeyNotDefinedWithDetails"},
	{0x8006088a, "CrmHttpError"},
	{0x8006088d, "OptimisticConcurrencyNotEnabled"},
	{0x8006088f, "InvalidEntityKeyOperation"},
	{0x80060890, "EntityKeyNotDefined"},
	{0x80060891, "RecordNotFoundByEntityKey"},
	{0x80060892, "DuplicateRecordEntityKey"},
	{0x80060893, "EntityKeyNameExists"},
	{0x80060894, "EntityKeyWithSelectedAttributesExists"},
	{0x80060895, "IndexSizeConstraintViolated"},
	{0x80060897, "ReactivateEntityKeyOnlyForFailedJobs"},
	{0x8006089d, "MultipleRecordsFoundByEntityKey"},
	{0x80072321, "ThrottlingTimeExceededError"},
	{0x80072322, "ThrottlingBurstRequestLimitExceededError"},
	{0x80072323, "AzureSqlDatabaseResourceLimitExceededError"},
	{0x80072324, "AzureSqlMaxConcurrentWorkersLimitExceededError"},
	{0x80072325, "AzureSqlDatabaseStorageQuotaExceededError"},
	{0x80072326, "ThrottlingConcurrencyLimitExceededError"},
	{0x80072327, "DSSThrottlingConcurrencyLimitExceededError"},
	{0x80072329, "AppRateLimitBulkheadThrottleLimitExceededError"},
	{0x80072491, "ChangeTrackingNotEnabledForEntity"},
	{0x80072560, "UserNotMemberOfOrg"},
	{0x80073001, "CrmSQLCharLengthTooLong"},
	{0x80073002, "CrmSQLUniqueIndexOrConstraintViolation"},
	{0x80090110, "EntityKeyAttributeNotValidForCreate"},
	{0x80090111, "EntityKeyAttributeNotValidForUpdate"},
	{0x80090112, "EntityKeyAttributeNotValidForCreateAndUpdate"},
	{0x80090429, "StringOrBinaryTruncation"},
	{0x80090487, "CannotUploadNonPrimaryImageAttributeOnCreate"},
	{0x80090800, "InvalidUrlForODataBindProperty"},
	{0x80090801, "InvalidPropertyInODataRequestBody"},
	{0x8009724f, "CannotCreateCustomEntityKeysForNonRelationalEntities"},
	{0x80097303, "MalformODataAnnotationHeader"},
};

#define NERRORS ((int) (sizeof(errors) / sizeof(errors[0])))

/* "0x" and one to eight hexadecimal digits; 0 for all else */
static uint32_t
parse_code(const char *s)
{
	uint32_t	code = 0;
	int			digits;

	if (s == NULL || s[0] != '0' || (s[1] != 'x' && s[1] != 'X'))
		return 0;
	for (digits = 0, s += 2; *s != '\0'; digits++, s++)
	{
		uint32_t	digit;

		if (*s >= '0' && *s <= '9')
			digit = (uint32_t) (*s - '0');
		else if (*s >= 'a' && *s <= 'f')
			digit = (uint32_t) (*s - 'a' + 10);
		else if (*s >= 'A' && *s <= 'F')
			digit = (uint32_t) (*s - 'A' + 10);
		else
			return 0;
		if (digits == 8)
			return 0;
		code = code << 4 | digit;
	}
	return code;
}

const char *
sim_error_name(const char *code)
{
	uint32_t	wanted = parse_code(code);
	int			low = 0;
	int			high = NERRORS - 1;

	while (low <= high)
	{
		int			middle = (low + high) / 2;

		if (errors[middle].code == wanted)
			return errors[middle].name;
		if (errors[middle].code < wanted)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return NULL;
}
