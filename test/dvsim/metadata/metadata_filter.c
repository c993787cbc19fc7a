/*
 * metadata_filter.c
 *		$filter over definitions, and the comparison it shares with the
 *		criteria of RetrieveMetadataChanges.
 *
 * A small recursive descent over the text yields a tree in the arena whose
 * leaves hold the property itself, so that matching a row asks the table of
 * properties directly.  As the service does, it refuses functions, compares
 * enums only with their own members, which may be plain strings, and complex
 * values only through a member.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/guid.h"
#include "metadata/metadata.h"

#define MAX_DEPTH 100

/* Classes of values that can be compared with each other. */
enum class
{
	CLASS_NONE,
	CLASS_NULL,
	CLASS_STRING,
	CLASS_ENUM,
	CLASS_GUID,
	CLASS_BOOL,
	CLASS_NUMBER,
	CLASS_TIME
};

static const enum class classes[] = {
	[SIM_META_TEXT] = CLASS_STRING,
	[SIM_META_ENUM] = CLASS_ENUM,
	[SIM_META_GUID] = CLASS_GUID,
	[SIM_META_TIME] = CLASS_TIME,
	[SIM_META_BOOL] = CLASS_BOOL,
	[SIM_META_INT] = CLASS_NUMBER,
	[SIM_META_NUMBER] = CLASS_NUMBER,
	[SIM_META_VALUE] = CLASS_STRING,
	[SIM_META_MANAGED] = CLASS_BOOL,
	[SIM_META_LEVEL] = CLASS_ENUM,
	[SIM_META_LABEL] = CLASS_NONE,
	[SIM_META_JSON] = CLASS_NONE
};

static const char *const class_names[] = {
	[CLASS_NONE] = "Edm.ComplexType",
	[CLASS_NULL] = "<null>",
	[CLASS_STRING] = "Edm.String",
	[CLASS_ENUM] = "Edm.Enum",
	[CLASS_GUID] = "Edm.Guid",
	[CLASS_BOOL] = "Edm.Boolean",
	[CLASS_NUMBER] = "Edm.Int32",
	[CLASS_TIME] = "Edm.DateTimeOffset"
};

static const struct
{
	const char *word;
	const char *kind;			/* its name in messages */
	enum sim_meta_op op;
}			operators[] = {
	{"eq", "Equal", SIM_META_EQ},
	{"ne", "NotEqual", SIM_META_NE},
	{"gt", "GreaterThan", SIM_META_GT},
	{"ge", "GreaterThanOrEqual", SIM_META_GE},
	{"lt", "LessThan", SIM_META_LT},
	{"le", "LessThanOrEqual", SIM_META_LE}
};

/* the members of the enums that properties have, with a blank around each */
static const struct
{
	const char *type;
	const char *members;
}			enums[] = {
	{"AttributeRequiredLevel", " None SystemRequired ApplicationRequired Recommended "},
	{"AttributeTypeCode", " Boolean Customer DateTime Decimal Double Integer Lookup Memo Money "
		"Owner PartyList Picklist State Status String Uniqueidentifier CalendarRules Virtual "
	"BigInt ManagedProperty EntityName "},
	{"DateTimeFormat", " DateOnly DateAndTime "},
	{"EntityKeyIndexStatus", " Pending InProgress Active Failed "},
	{"ImeMode", " Auto Inactive Active Disabled "},
	{"IntegerFormat", " None Duration TimeZone Language Locale "},
	{"LookupFormat", " None Connection Regarding Text "},
	{"OptionSetType", " Picklist State Status Boolean "},
	{"OwnershipTypes", " None UserOwned TeamOwned BusinessOwned OrganizationOwned "
	"BusinessParented Filtered "},
	{"RelationshipType", " OneToManyRelationship Default ManyToManyRelationship "},
	{"SecurityTypes", " None Append ParentChild Pointer Inheritance "},
	{"StringFormat", " Email Text TextArea Url TickerSymbol PhoneticGuide VersionNumber Phone "
	"Json RichText "}
};

struct parser
{
	struct sim_req *req;
	struct sim_res *res;
	const struct sim_meta_type *type;
	const char *text;
	const char *p;
	int			depth;
};

/* A constant: its value, its class and, for an enum, the type it names. */
struct literal
{
	enum class	class;
	const char *enum_type;
	size_t		enum_len;
	struct sim_meta_value value;
};

static const struct sim_meta_filter *parse_or(struct parser *parser);

/* ---------------------------------------------------------------- matching */

static long double
number_of(const struct sim_meta_prop *prop, const struct sim_meta_value *value)
{
	if (prop->kind == SIM_META_NUMBER)
		return strtold(value->s, NULL);
	return (long double) value->i;
}

/* Both values exist; the constant of a number is text. */
static int
compare(const struct sim_meta_prop *prop, const struct sim_meta_value *value,
		const struct sim_meta_value *constant)
{
	switch (classes[prop->kind])
	{
		case CLASS_BOOL:
			return (value->i > constant->i) - (value->i < constant->i);
		case CLASS_NUMBER:
			{
				long double a = number_of(prop, value);
				long double b = strtold(constant->s, NULL);

				return (a > b) - (a < b);
			}
		case CLASS_GUID:
			return strcasecmp(value->s, constant->s);
		default:
			return strcmp(value->s, constant->s);
	}
}

/* null equals only null, and is neither less nor greater */
static bool
holds(enum sim_meta_op op, const struct sim_meta_prop *prop, const struct sim_meta_value *value,
	  const struct sim_meta_value *constant)
{
	int			order;

	if (value->null || constant->null)
		return (op == SIM_META_EQ || op == SIM_META_NE) &&
			(value->null && constant->null) == (op == SIM_META_EQ);
	order = compare(prop, value, constant);
	switch (op)
	{
		case SIM_META_EQ:
			return order == 0;
		case SIM_META_NE:
			return order != 0;
		case SIM_META_GT:
			return order > 0;
		case SIM_META_GE:
			return order >= 0;
		case SIM_META_LT:
			return order < 0;
		default:
			return order <= 0;
	}
}

static bool
matches_leaf(const struct sim_meta_filter *filter, const struct sim_meta_item *item)
{
	const struct sim_meta_prop *prop = filter->prop;
	struct sim_meta_value value;

	if (prop == NULL)
		prop = sim_meta_prop_of(item->type, filter->name, strlen(filter->name));
	if (prop == NULL)
	{
		/* another type's property is null */
		static const struct sim_meta_prop none = META_FIXED("", TEXT, NULL);

		prop = &none;
	}
	sim_meta_get(prop, item, &value);
	if (filter->changeable)
		value.i = true;
	if (filter->op == SIM_META_TRUE)
		return !value.null && value.i != 0;
	return holds(filter->op, prop, &value, filter->value);
}

bool
sim_meta_matches(const struct sim_meta_filter *filter, const struct sim_meta_item *item)
{
	if (filter->op == SIM_META_AND)
		return sim_meta_matches(filter->left, item) && sim_meta_matches(filter->right, item);
	if (filter->op == SIM_META_OR)
		return sim_meta_matches(filter->left, item) || sim_meta_matches(filter->right, item);
	if (filter->op == SIM_META_NOT)
		return !sim_meta_matches(filter->left, item);
	return matches_leaf(filter, item);
}

/* ---------------------------------------------------------------- reading */

static void *
syntax_error(struct parser *parser)
{
	sim_fail(parser->req, parser->res, 400, "0x80060888",
			 "Syntax error at position %zu in '%s'.", (size_t) (parser->p - parser->text),
			 parser->text);
	return NULL;
}

static void
skip_blanks(struct parser *parser)
{
	while (*parser->p == ' ' || *parser->p == '\t')
		parser->p++;
}

static size_t
name_length(const char *p)
{
	size_t		n = 0;

	if (!isalpha((unsigned char) *p) && *p != '_')
		return 0;
	while (isalnum((unsigned char) p[n]) || p[n] == '_')
		n++;
	return n;
}

/* Takes a word if it comes next as a whole. */
static bool
take_word(struct parser *parser, const char *word)
{
	size_t		len = strlen(word);

	skip_blanks(parser);
	if (name_length(parser->p) != len || strncmp(parser->p, word, len) != 0)
		return false;
	parser->p += len;
	return true;
}

/* 'text' with doubled quotes inside */
static bool
read_quoted(struct parser *parser, const char **out)
{
	char	   *copy;
	size_t		n = 0;

	if (*parser->p != '\'')
		return false;
	copy = sim_alloc(parser->req->arena, strlen(parser->p));
	for (parser->p++; *parser->p; parser->p++)
	{
		if (*parser->p == '\'' && *++parser->p != '\'')
		{
			copy[n] = '\0';
			*out = copy;
			return true;
		}
		copy[n++] = *parser->p;
	}
	return false;
}

/* Microsoft.Dynamics.CRM.AttributeTypeCode'Lookup' */
static bool
read_enum(struct parser *parser, struct literal *out)
{
	parser->p += strlen(SIM_NAMESPACE);
	out->class = CLASS_ENUM;
	out->enum_type = parser->p;
	out->enum_len = name_length(parser->p);
	parser->p += out->enum_len;
	return out->enum_len > 0 && read_quoted(parser, &out->value.s);
}

/* Reads a constant without quotes: numbers, guids, dates, true, false and null. */
static bool
read_plain(struct parser *parser, struct literal *out)
{
	unsigned char guid[16];
	size_t		n = strcspn(parser->p, " \t()',");
	char	   *text = sim_strndup(parser->req->arena, parser->p, n);
	char	   *end;

	parser->p += n;
	out->value.s = text;
	if (strcmp(text, "null") == 0)
	{
		out->class = CLASS_NULL;
		out->value.null = true;
	}
	else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
	{
		out->class = CLASS_BOOL;
		out->value.i = text[0] == 't';
	}
	else if (n == 36 && sim_guid_parse(text, n, guid))
		out->class = CLASS_GUID;
	else if (n > 10 && text[4] == '-' && text[7] == '-')
		out->class = CLASS_TIME;
	else
	{
		out->class = CLASS_NUMBER;
		strtold(text, &end);
		if (n == 0 || *end != '\0' || (!isdigit((unsigned char) text[0]) && text[0] != '-'))
			return false;
	}
	return true;
}

static bool
read_literal(struct parser *parser, struct literal *out)
{
	skip_blanks(parser);
	memset(out, 0, sizeof(*out));
	if (*parser->p == '@')
	{
		size_t		n = 1 + name_length(parser->p + 1);
		const char *value = sim_param(parser->req,
									  sim_strndup(parser->req->arena, parser->p, n));
		struct parser inner = *parser;
		bool		ok;

		if (value == NULL || value[0] == '@')
			return false;
		inner.p = value;
		ok = read_literal(&inner, out) && *inner.p == '\0';
		parser->p += n;
		return ok;
	}
	if (*parser->p == '\'')
	{
		out->class = CLASS_STRING;
		return read_quoted(parser, &out->value.s);
	}
	if (strncmp(parser->p, SIM_NAMESPACE, strlen(SIM_NAMESPACE)) == 0)
		return read_enum(parser, out);
	return read_plain(parser, out);
}

/* Reads the member that must follow a complex property, and may not follow others. */
static bool
read_member(struct parser *parser, struct sim_meta_filter *leaf)
{
	enum sim_meta_kind kind = leaf->prop->kind;
	bool		managed = kind == SIM_META_MANAGED || kind == SIM_META_LEVEL;
	size_t		n;

	if (kind == SIM_META_LABEL || kind == SIM_META_JSON)
		return sim_fail(parser->req, parser->res, 400, "0x80060888",
						"The property '%s' cannot be used in the $filter query option.",
						leaf->prop->name);
	if (!managed && kind != SIM_META_VALUE)
		return *parser->p != '/' || syntax_error(parser) != NULL;
	if (*parser->p != '/')
		return sim_fail(parser->req, parser->res, 400, "0x80060888",
						"The property '%s' is of a complex type: use '%s/Value'.",
						leaf->prop->name, leaf->prop->name);
	n = name_length(++parser->p);
	if (n == 12 && managed && strncmp(parser->p, "CanBeChanged", 12) == 0)
		leaf->changeable = true;
	else if (n != 5 || strncmp(parser->p, "Value", 5) != 0)
		return sim_fail(parser->req, parser->res, 400, "0x0",
						"Could not find a property named '%.*s' on the type of '%s'.",
						(int) n, parser->p, leaf->prop->name);
	parser->p += n;
	return true;
}

/* the enum of a property that is one */
static const char *
enum_of(const struct sim_meta_prop *prop)
{
	return prop->kind == SIM_META_LEVEL ? "AttributeRequiredLevel" : prop->extra;
}

static bool
is_member(const char *type, const char *name)
{
	size_t		len = strlen(name);
	const char *at;
	size_t		i;

	if (strchr(name, ' ') != NULL)
		return false;
	for (i = 0; i < sizeof(enums) / sizeof(enums[0]); i++)
	{
		if (strcmp(enums[i].type, type) != 0)
			continue;
		for (at = enums[i].members; len > 0 && (at = strstr(at, name)) != NULL; at++)
			if (at[-1] == ' ' && at[len] == ' ')
				return true;
	}
	return false;
}

/* An enum's constant has the type's name before it, or is text that becomes a member. */
static bool
fits(const struct sim_meta_filter *leaf, enum class class, const struct literal *literal)
{
	const char *type;

	if (literal->class == CLASS_NULL)
		return true;
	if (class == CLASS_ENUM && literal->class == CLASS_STRING)
		return true;
	if (literal->class != class)
		return false;
	if (class != CLASS_ENUM)
		return true;
	type = enum_of(leaf->prop);
	return strlen(type) == literal->enum_len &&
		strncmp(type, literal->enum_type, literal->enum_len) == 0;
}

static const struct sim_meta_filter *
parse_comparison(struct parser *parser, struct sim_meta_filter *leaf)
{
	enum class	class = leaf->changeable ? CLASS_BOOL : classes[leaf->prop->kind];
	struct literal *literal = sim_alloc(parser->req->arena, sizeof(*literal));
	size_t		i;

	for (i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (take_word(parser, operators[i].word))
			break;
	if (i == sizeof(operators) / sizeof(operators[0]))
	{
		leaf->op = SIM_META_TRUE;
		return class == CLASS_BOOL ? leaf : syntax_error(parser);
	}
	leaf->op = operators[i].op;
	if (!read_literal(parser, literal))
		return syntax_error(parser);
	if (!fits(leaf, class, literal))
	{
		sim_fail(parser->req, parser->res, 400, "0x80060888",
				 "A binary operator with incompatible types was detected. Found operand types "
				 "'%s' and '%s' for operator kind '%s'.",
				 class == CLASS_ENUM ?
				 sim_fmt(parser->req->arena, SIM_NAMESPACE "%s", enum_of(leaf->prop)) :
				 class_names[class], class_names[literal->class], operators[i].kind);
		return NULL;
	}
	if (class == CLASS_ENUM && literal->class != CLASS_NULL &&
		!is_member(enum_of(leaf->prop), literal->value.s))
	{
		sim_fail(parser->req, parser->res, 400, "0x80060888",
				 "The string '%s' is not a valid enumeration type constant.", literal->value.s);
		return NULL;
	}
	leaf->value = &literal->value;
	return leaf;
}

static const struct sim_meta_filter *
parse_leaf(struct parser *parser)
{
	struct sim_meta_filter *leaf = sim_alloc(parser->req->arena, sizeof(*leaf));
	size_t		n = name_length(parser->p);

	if (n == 0)
		return syntax_error(parser);
	if (parser->p[n] == '(')
	{
		sim_fail(parser->req, parser->res, 501, "0x8006088a",
				 "The \"%.*s\" function isn't supported for Metadata Entities.", (int) n,
				 parser->p);
		return NULL;
	}
	leaf->prop = sim_meta_prop_of(parser->type, parser->p, n);
	if (leaf->prop == NULL)
	{
		sim_fail(parser->req, parser->res, 400, "0x0",
				 "Could not find a property named '%.*s' on type '" SIM_NAMESPACE "%s'.",
				 (int) n, parser->p, parser->type->name);
		return NULL;
	}
	parser->p += n;
	if (!read_member(parser, leaf))
		return NULL;
	return parse_comparison(parser, leaf);
}

static const struct sim_meta_filter *
parse_unary(struct parser *parser)
{
	const struct sim_meta_filter *inner;

	skip_blanks(parser);
	if (parser->depth >= MAX_DEPTH)
		return syntax_error(parser);
	if (*parser->p == '(')
	{
		parser->p++;
		parser->depth++;
		inner = parse_or(parser);
		parser->depth--;
		if (inner == NULL)
			return NULL;
		skip_blanks(parser);
		if (*parser->p != ')')
			return syntax_error(parser);
		parser->p++;
		return inner;
	}
	if (take_word(parser, "not"))
	{
		struct sim_meta_filter *node = sim_alloc(parser->req->arena, sizeof(*node));

		parser->depth++;
		node->op = SIM_META_NOT;
		node->left = parse_unary(parser);
		parser->depth--;
		return node->left ? node : NULL;
	}
	return parse_leaf(parser);
}

static const struct sim_meta_filter *
pair(struct parser *parser, enum sim_meta_op op, const struct sim_meta_filter *left,
	 const struct sim_meta_filter *right)
{
	struct sim_meta_filter *node = sim_alloc(parser->req->arena, sizeof(*node));

	node->op = op;
	node->left = left;
	node->right = right;
	return right ? node : NULL;
}

static const struct sim_meta_filter *
parse_and(struct parser *parser)
{
	const struct sim_meta_filter *left = parse_unary(parser);

	while (left && take_word(parser, "and"))
		left = pair(parser, SIM_META_AND, left, parse_unary(parser));
	return left;
}

static const struct sim_meta_filter *
parse_or(struct parser *parser)
{
	const struct sim_meta_filter *left = parse_and(parser);

	while (left && take_word(parser, "or"))
		left = pair(parser, SIM_META_OR, left, parse_and(parser));
	return left;
}

const struct sim_meta_filter *
sim_meta_filter_parse(struct sim_req *req, struct sim_res *res, const struct sim_meta_type *type,
					  const char *text)
{
	struct parser parser = {req, res, type, text, text, 0};
	const struct sim_meta_filter *filter = parse_or(&parser);

	skip_blanks(&parser);
	if (filter && *parser.p != '\0')
		return syntax_error(&parser);
	return filter;
}
