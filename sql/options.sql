--
-- Options: which names there are, where each may be set, which addresses are
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

-- a name that nearly is one
ALTER SERVER crm OPTIONS (ADD tenantid 'contoso');
ALTER SERVER crm OPTIONS (ADD max_paralel '4');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_scret 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD client_scret_3 'x');
ALTER FOREIGN TABLE account OPTIONS (ADD batchsize '10');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (ADD colum 'x');

-- a name that is one, elsewhere
ALTER SERVER crm OPTIONS (ADD client_secret 'x');
ALTER USER MAPPING FOR CURRENT_USER SERVER crm OPTIONS (ADD url 'https://contoso.crm.dynamics.com');
ALTER FOREIGN TABLE account OPTIONS (ADD client_id_2 'x');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (ADD page_size '10');
ALTER FOREIGN DATA WRAPPER dataverse_fdw OPTIONS (ADD url 'https://contoso.crm.dynamics.com');

-- a name like no other
ALTER FOREIGN TABLE account OPTIONS (ADD wibble_wobble 'x');
ALTER FOREIGN TABLE account ALTER parent OPTIONS (ADD wibble_wobble 'x');

-- application users are numbered from 2 to 64, and so is nothing else
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

-- what was refused has changed nothing
SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'crm';
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'account'::regclass;

SET client_min_messages = warning;
DROP SERVER crm CASCADE;
