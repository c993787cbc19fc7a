/*
 * standalone.c
 *		Runs a fuzz target without libFuzzer.
 *
 *	NAME_fuzz [-runs=N | -max_total_time=SECONDS] [-seed=N] [-artifact_prefix=PATH] DIRECTORY...
 *
 * These are libFuzzer's arguments; its others are ignored.  Each file of the
 * directories is an input, followed by random changes of these, determined by
 * the seed.  An input that makes the target fail is written to PATHcrash.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_INPUTS 256
#define MAX_LEN 4096
#define MAX_CHANGES 5

typedef struct input
{
	uint8_t		bytes[MAX_LEN];
	size_t		len;
} input;

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void		__sanitizer_set_death_callback(void (*callback) (void));

static input inputs[MAX_INPUTS];
static size_t ninputs;
static input current;
static char artifact[1024] = "crash";
static uint64_t chance = 1;

static void
save(void)
{
	int			fd = open(artifact, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd >= 0 && write(fd, current.bytes, current.len) == (ssize_t) current.len)
		fprintf(stderr, "the input is in %s\n", artifact);
	fflush(stderr);
}

static void
on_abort(int number)
{
	save();
	_exit(77);
}

/* The memory ends with the input, so that the sanitizers detect reads beyond it. */
static void
try_current(void)
{
	uint8_t    *copy = malloc(current.len);

	memcpy(copy, current.bytes, current.len);
	(void) LLVMFuzzerTestOneInput(copy, current.len);
	free(copy);
}

/* xorshift64*, below a limit that is not 0 */
static size_t
below(size_t limit)
{
	chance ^= chance >> 12;
	chance ^= chance << 25;
	chance ^= chance >> 27;
	return (size_t) ((chance * UINT64_C(2685821657736338717)) >> 32) % limit;
}

/* Replaces "cut" bytes of the current input by as many bytes as fit. */
static void
replace(size_t at, size_t cut, const uint8_t *bytes, size_t len)
{
	size_t		rest = current.len - at - cut;

	if (current.len - cut + len > MAX_LEN)
		return;
	memmove(current.bytes + at + len, current.bytes + at + cut, rest);
	memcpy(current.bytes + at, bytes, len);
	current.len = at + len + rest;
}

static void
change(void)
{
	static const uint8_t special[] = "\"\\{}[]:,<>'=%-+.0159aeu \r\n\t\0\177\200\377";
	const input *other = &inputs[below(ninputs)];
	size_t		at = below(current.len + 1);
	size_t		cut = below(2) == 0 ? 0 : below(current.len - at + 1) % (below(64) + 1);
	size_t		from = below(other->len + 1);
	size_t		len = below(other->len - from + 1) % (below(64) + 1);
	uint8_t		byte = below(2) == 0 ? (uint8_t) below(256) : special[below(sizeof(special) - 1)];
	uint8_t		piece[MAX_LEN];

	memcpy(piece, other->bytes + from, len);
	switch (below(4))
	{
		case 0:
			if (at < current.len)
				current.bytes[at] = byte;
			break;
		case 1:
			replace(at, 0, &byte, 1);
			break;
		case 2:
			replace(at, cut, piece, 0);
			break;
		case 3:
			replace(at, cut, piece, len);
			break;
	}
}

static void
read_directory(const char *path)
{
	struct dirent **files;
	int			n = scandir(path, &files, NULL, alphasort);
	int			i;

	for (i = 0; i < n; i++)
	{
		char		name[1024];
		FILE	   *file;

		snprintf(name, sizeof(name), "%s/%s", path, files[i]->d_name);
		free(files[i]);
		if (name[strlen(name) - 1] == '.' || ninputs == MAX_INPUTS || (file = fopen(name, "rb")) == NULL)
			continue;
		inputs[ninputs].len = fread(inputs[ninputs].bytes, 1, MAX_LEN, file);
		ninputs++;
		fclose(file);
	}
	if (n >= 0)
		free(files);
}

int
main(int argc, char **argv)
{
	unsigned long runs = 0;
	unsigned long done;
	time_t		end = 0;
	int			i;

	for (i = 1; i < argc; i++)
	{
		if (strncmp(argv[i], "-runs=", 6) == 0)
			runs = strtoul(argv[i] + 6, NULL, 10);
		else if (strncmp(argv[i], "-max_total_time=", 16) == 0)
			end = time(NULL) + strtol(argv[i] + 16, NULL, 10);
		else if (strncmp(argv[i], "-seed=", 6) == 0)
			chance = strtoull(argv[i] + 6, NULL, 10) * 2 + 1;
		else if (strncmp(argv[i], "-artifact_prefix=", 17) == 0)
			snprintf(artifact, sizeof(artifact), "%scrash", argv[i] + 17);
		else if (argv[i][0] != '-')
			read_directory(argv[i]);
	}
	if (ninputs == 0)
	{
		fprintf(stderr, "%s: there is no input to begin with\n", argv[0]);
		return 1;
	}
	signal(SIGABRT, on_abort);
	__sanitizer_set_death_callback(save);
	for (done = 0; runs > 0 ? done < runs : time(NULL) < end; done++)
	{
		size_t		changes = done < ninputs ? 0 : 1 + below(MAX_CHANGES);

		current = inputs[done < ninputs ? done : below(ninputs)];
		while (changes-- > 0)
			change();
		try_current();
	}
	fprintf(stderr, "stat::number_of_executed_units: %lu\n", done);
	return 0;
}
