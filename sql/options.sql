--
-- Options: their names, where each may be set, which addresses are
-- accepted.
--
\set VERBOSITY default

-- as in the README
CREATE SERVER crm FOREIGN DATA WRAPPER dataverse_fdw
  OPTIONS (url 'https://contoso.crm.dynamics.com', tenant_id 'contoso');
CREATE USER MAPPING FOR CURRENT_USER SERVER crm
  OPTIONS (client_id 'app1', client_secret 'secret1',
           client_id_2 'app2', client_secret_2 'secret2', name_2 'night shift',
           client_id_64 'app64', client_secret_64 'secret64', caller_id 'x');
CREATE FOREIGN TABLE account (
  accountid uuid OPTIONS (column 'accountid'),
  parent uuid OPTIONS (navigation 'parentaccountid', target 'account', readonly 'true')
) SERVER crm OPTIONS (table 'account', batch_size '100');

-- invalid combinations: no address, and no way to get tokens, unless the credentials need none
CREATE SERVER nowhere FOREIGN DATA WRAPPER dataverse_fdw;
CREATE SERVER nowhere FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (tenant_id 'contoso');
ALTER SERVER crm OPTIONS (DROP url);
CREATE SERVER no_tenant FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com');
DROP SERVER no_tenant;

-- a misspelled name
ALTER SERVER crm OPTIONS (ADD tenantid 'contoso');
ALTER SERVER crm OPTIONS (ADD max_paralel '4');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_scret 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_scret_3 'x');
ALTER FOREIGN TABLE account OPTIONS (ADD batchsize '10');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (ADD colum 'x');

-- a name of another kind of object
ALTER SERVER crm OPTIONS (ADD client_secret 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD url 'https://contoso.crm.dynamics.com');
ALTER FOREIGN TABLE account OPTIONS (ADD client_id_2 'x');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (ADD page_size '10');
ALTER FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (ADD url 'https://contoso.crm.dynamics.com');

-- an unknown name
ALTER FOREIGN TABLE account OPTIONS (ADD wibble_wobble 'x');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (ADD wibble_wobble 'x');

-- only application users are numbered, from 2 to 64
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_id_1 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_id_65 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_id_02 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_id_ 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD caller_id_2 'x');
ALTER SERVER crm OPTIONS (ADD url_2 'https://contoso.crm.dynamics.com');

-- names are exact
ALTER SERVER crm OPTIONS (ADD "Proxy" 'x');

-- addresses: https, or http to this machine
ALTER SERVER crm OPTIONS (SET url 'http://127.0.0.1:8080');
ALTER SERVER crm OPTIONS (SET url 'http://[::1]:8080/');
ALTER SERVER crm OPTIONS (SET url 'HTTPS://contoso.crm4.dynamics.com:443/');
ALTER SERVER crm OPTIONS (ADD token_url 'https://login.example.com/t/oauth2/v2.0/token');
ALTER SERVER crm OPTIONS (SET url 'http://contoso.crm.dynamics.com');
ALTER SERVER crm OPTIONS (SET url 'http://localhost.example.com');
ALTER SERVER crm OPTIONS (SET url 'ftp://contoso.crm.dynamics.com');
ALTER SERVER crm OPTIONS (SET url 'contoso.crm.dynamics.com');
ALTER SERVER crm OPTIONS (SET url '');
ALTER SERVER crm OPTIONS (SET url 'https://');
ALTER SERVER crm OPTIONS (SET url 'https://me:hush@contoso.crm.dynamics.com');
ALTER SERVER crm OPTIONS (SET url 'https://contoso.crm.dynamics.com/api/data/v9.2');
ALTER SERVER crm OPTIONS (SET url 'https://contoso.crm.dynamics.com?x=1');
ALTER SERVER crm OPTIONS (SET token_url 'http://login.example.com/token');
ALTER SERVER crm OPTIONS (ADD authority 'login.microsoftonline.us');

-- values: whole numbers and their ranges
ALTER SERVER crm OPTIONS (ADD max_parallel '0');
ALTER SERVER crm OPTIONS (ADD max_parallel '53');
ALTER SERVER crm OPTIONS (ADD max_parallel 'many');
ALTER SERVER crm OPTIONS (ADD max_parallel '4.5');
ALTER SERVER crm OPTIONS (ADD max_parallel '52');
ALTER SERVER crm OPTIONS (ADD max_throttle_retries '-2');
ALTER SERVER crm OPTIONS (ADD max_throttle_retries '-1');
ALTER FOREIGN TABLE account OPTIONS (SET batch_size '1001');
ALTER FOREIGN TABLE account OPTIONS (ADD page_size '5000');
ALTER SERVER crm OPTIONS (ADD scan_parallelism '0');
ALTER FOREIGN TABLE account OPTIONS (ADD scan_parallelism '65');
SET dataverse_fdw.scan_parallelism = '65';
SET dataverse_fdw.scan_parallelism = '64';
SET dataverse_fdw.scan_parallelism = '';
RESET dataverse_fdw.scan_parallelism;
-- numbers
ALTER SERVER crm OPTIONS (ADD decrease_factor '0.95');
ALTER SERVER crm OPTIONS (ADD decrease_factor '0.9');
ALTER SERVER crm OPTIONS (ADD initial_parallelism_factor 'nan');
-- times and their units
ALTER SERVER crm OPTIONS (ADD fallback_retry_after '30 parsecs');
ALTER SERVER crm OPTIONS (ADD fallback_retry_after '2h');
ALTER SERVER crm OPTIONS (ADD fallback_retry_after '1min');
ALTER SERVER crm OPTIONS (ADD connect_timeout '0');
ALTER SERVER crm OPTIONS (ADD connect_timeout '1500ms');
ALTER SERVER crm OPTIONS (ADD request_timeout '-1s');
ALTER SERVER crm OPTIONS (ADD request_timeout '90');
ALTER SERVER crm OPTIONS (ADD max_retry_after_tolerance '');
-- choices
ALTER SERVER crm OPTIONS (ADD rate_preset 'fast');
ALTER SERVER crm OPTIONS (ADD rate_preset 'Conservative');
ALTER SERVER crm OPTIONS (ADD selection 'random');
ALTER SERVER crm OPTIONS (ADD dop_scope 'environment');
ALTER SERVER crm OPTIONS (ADD adaptive_rate 'perhaps');
ALTER SERVER crm OPTIONS (ADD budget_pacing 'off');
-- texts
ALTER SERVER crm OPTIONS (ADD user_agent '');
-- no control characters, and nothing that would have another meaning in a header or an address
ALTER SERVER crm OPTIONS (ADD user_agent E'x\r\nX-Smuggled: 1');
ALTER SERVER crm OPTIONS (ADD user_agent 'dataverse_fdw (of contoso)');
ALTER SERVER crm OPTIONS (ADD api_version '9.2/../../x');
ALTER SERVER crm OPTIONS (ADD api_version '..');
ALTER SERVER crm OPTIONS (ADD api_version '9.1');
ALTER SERVER crm OPTIONS (SET tenant_id 'contoso/../other');
ALTER SERVER crm OPTIONS (SET tenant_id '..');
ALTER SERVER crm OPTIONS (ADD tag E'a\nb');
ALTER SERVER crm OPTIONS (SET url E'https://contoso.crm.dynamics.com\r\nX-Smuggled: 1');
ALTER SERVER crm OPTIONS (SET token_url E'https://login.example.com/t\noken');
ALTER SERVER crm OPTIONS (ADD ca_file E'/etc/ssl/ca\t.pem');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET caller_id E'x\nX-Smuggled: 1');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET caller_id 'x y');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET client_id E'app1\x7f');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET client_secret_2 E'hush\rhush');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (SET name_2 E'night\nshift');
CREATE USER MAPPING FOR PUBLIC SERVER crm OPTIONS (access_token E'hush\r\nX-Smuggled: 1');
CREATE USER MAPPING FOR PUBLIC SERVER crm OPTIONS (access_token 'hush hush');
ALTER FOREIGN TABLE account OPTIONS (SET "table" 'account/x');
ALTER FOREIGN TABLE account OPTIONS (ADD entity_set '../accounts');
ALTER FOREIGN TABLE account OPTIONS (ADD primary_id 'id,x');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (SET navigation 'a/b');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (SET target 'account, contact');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (SET target 'account');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (ADD target_set 'accounts(1)');
-- a setting accepts the values of the option
SET dataverse_fdw.tag = E'a\nb';
-- a proxy's password is a secret of the user mapping
ALTER SERVER crm OPTIONS (ADD proxy 'http://me:hush@proxy:3128');
ALTER SERVER crm OPTIONS (ADD proxy E'http://proxy:3128\n');
ALTER SERVER crm OPTIONS (ADD proxy 'http://proxy:3128');
ALTER SERVER crm OPTIONS (DROP proxy);
ALTER SERVER crm OPTIONS (ADD proxy_password 'hush');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD proxy_password 'hush');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD proxy_user 'me', ADD proxy_password 'hush');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD proxy_user_2 'me');

-- combinations that cannot work
ALTER SERVER crm OPTIONS (SET max_parallel '4', ADD min_parallelism '5');
CREATE ROLE regress_dataverse;
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (client_id 'x');
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (client_secret 'hush');
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (client_id 'x', client_secret 'hush', access_token 'hush');
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (client_id 'x', client_secret 'hush', client_key '/key.pem');
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (client_id 'x', client_secret 'hush', name_3 'third');
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (client_id 'x', client_secret '');
CREATE USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (managed_identity 'on');
ALTER USER MAPPING FOR regress_dataverse SERVER crm OPTIONS (SET managed_identity 'off', ADD access_token 'hush');
DROP USER MAPPING FOR regress_dataverse SERVER crm;

-- files, identities, proxies and http are for superusers
GRANT USAGE ON FOREIGN DATA WRAPPER dataverse_fdw TO regress_dataverse;
GRANT USAGE ON FOREIGN SERVER crm TO regress_dataverse;
SET ROLE regress_dataverse;
CREATE SERVER mine FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'http://127.0.0.1:8080');
CREATE SERVER mine FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', ca_file '/etc/passwd');
CREATE SERVER mine FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com', proxy 'http://proxy');
CREATE SERVER mine FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (url 'https://contoso.crm.dynamics.com');
CREATE USER MAPPING FOR regress_dataverse SERVER mine OPTIONS (client_id 'x', client_certificate '/etc/passwd');
CREATE USER MAPPING FOR regress_dataverse SERVER mine OPTIONS (managed_identity 'on');
CREATE USER MAPPING FOR regress_dataverse SERVER mine OPTIONS (client_id 'x', client_secret 'hush', proxy_user 'me', proxy_password 'hush');
DROP SERVER mine CASCADE;
RESET ROLE;
DROP OWNED BY regress_dataverse;
DROP ROLE regress_dataverse;

-- the table of options: secrets are only in user mappings, defaults are valid values
SELECT count(*) > 60 AS options, count(DISTINCT name) = count(*) AS names FROM dataverse.options();
SELECT name, place, numbered, superuser_only FROM dataverse.options() WHERE secret ORDER BY name;
SELECT name, place FROM dataverse.options() WHERE superuser_only ORDER BY name;

-- refused statements have no effect
SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'crm';
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'account'::regclass;

SET client_min_messages = warning;
DROP SERVER crm CASCADE;
