/*
 * client.js
 *		The npm client dynamics-web-api, as make bench-peers runs it.
 *
 *		node client.js WHAT URL TOKEN ROWS WARM BATCH CONNECTIONS
 *
 * WHAT is
 *
 *	create-multiple		each call is an action CreateMultiple of BATCH rows, and
 *						CONNECTIONS calls are under way at a time
 *	batch				the same with $batch requests of BATCH creates, as the
 *						library's README shows it
 *	retrieve-all		one call of retrieveAll, with pages of 5,000 rows
 *	pages				retrieveMultiple, one page after the other, each discarded
 *
 * First, WARM rows are written or read, which opens connections and lets the
 * engine compile.  Prints the rows that the service has confirmed or returned,
 * seconds, and seconds of processor time.
 *
 * SPDX-License-Identifier: PostgreSQL
 */
"use strict";

const { DynamicsWebApi } = require("dynamics-web-api");

const [what, url, token, ...numbers] = process.argv.slice(2);
const [rows, warm, batch, connections] = numbers.map(Number);

const columns = ["name", "accountnumber", "telephone1", "emailaddress1", "address1_city", "revenue",
	"numberofemployees", "creditonhold"];

// An instance for each connection, because a batch belongs to an instance.
const clients = Array.from({ length: connections }, () => new DynamicsWebApi({
	serverUrl: url,
	dataApi: { version: "9.2" },
	onTokenRefresh: async () => token,
}));

// The values of row n, as in test/bench/peers.
function account(n) {
	return {
		name: "Contoso Ltd. " + (1000000 + n),
		accountnumber: "A-" + n,
		telephone1: "+43 1 " + (5000000 + n),
		revenue: (n * 7919 % 100000000) / 100,
		numberofemployees: n % 100000,
		creditonhold: n % 3 === 0,
	};
}

async function createMultiple(client, first, last) {
	const Targets = [];

	for (let n = first; n <= last; n++)
		Targets.push({ "@odata.type": "Microsoft.Dynamics.CRM.account", ...account(n) });
	const answer = await client.callAction({
		collection: "accounts",
		actionName: "Microsoft.Dynamics.CRM.CreateMultiple",
		action: { Targets },
	});
	return answer.Ids.length;
}

async function createBatch(client, first, last) {
	client.startBatch();
	for (let n = first; n <= last; n++)
		client.create({ collection: "accounts", data: account(n) });
	const ids = await client.executeBatch();
	return ids.filter((id) => /^[0-9a-f-]{36}$/i.test(id)).length;
}

// Each connection takes the next rows as soon as it is free.
async function write(create, total) {
	let next = 1;
	let written = 0;

	await Promise.all(clients.map(async (client) => {
		while (next <= total) {
			const first = next;
			const last = Math.min(first + batch - 1, total);

			next = last + 1;
			// in two steps, because others add to it while this one waits
			const confirmed = await create(client, first, last);
			written += confirmed;
		}
	}));
	return written;
}

const request = { collection: "accounts", select: columns, maxPageSize: 5000 };

function count(accounts) {
	let n = 0;

	for (const account of accounts)
		n += account.accountid !== undefined && columns.every((column) => column in account);
	return n;
}

async function retrieveAll() {
	return count((await clients[0].retrieveAll(request)).value);
}

async function pages(total) {
	let page = await clients[0].retrieveMultiple(request);
	let n = count(page.value);

	while (page.oDataNextLink && n < total) {
		page = await clients[0].retrieveMultiple(request, page.oDataNextLink);
		n += count(page.value);
	}
	return n;
}

const run = {
	"create-multiple": (total) => write(createMultiple, total),
	"batch": (total) => write(createBatch, total),
	"retrieve-all": (total) => total === warm ? pages(total) : retrieveAll(),
	"pages": pages,
}[what];

async function main() {
	await run(warm);
	const cpu = process.cpuUsage();
	const start = process.hrtime.bigint();
	const done = await run(rows);
	const seconds = Number(process.hrtime.bigint() - start) / 1e9;
	const { user, system } = process.cpuUsage(cpu);

	console.log(done, seconds.toFixed(6), ((user + system) / 1e6).toFixed(6));
}

main().catch((error) => {
	console.error(error);
	process.exit(1);
});
