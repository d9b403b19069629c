#if PostgreSQL
    import ChangesetSync
    import Foundation
    import TestKit
    import Testing

    @testable import PostgreSQLRemote

    /// Tables, rights, and how a server is reached.
    @Suite("Access to PostgreSQL servers", .timeLimit(.minutes(3)))
    struct ServerAccessTests {
        private let database: TestDatabase

        init() throws { database = try TestDatabase() }

        private func listing(_ store: PostgreSQLObjectStore) -> PostgreSQLError.Code? {
            Make.code { try store.list("") }
        }

        @Test("the first put makes the tables, whoever does it and how many at once; until then a listing is empty")
        func setup() throws {
            #expect(try database.store().list("").isEmpty)
            _ = try Work.all(12) { [database] number in
                let store = try database.store()
                if number % 2 == 0 { try store.setup() }
                try store.put([number])
            }
            #expect(try database.store().names() == (0..<12).map { Make.name($0) })
            let keys = """
                SELECT conrelid::regclass::text || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
                WHERE connamespace = 'cipherstore'::regnamespace AND contype IN ('p', 'u') ORDER BY 1
                """
            #expect(
                try database.texts(keys) == [
                    "cipherstore.object PRIMARY KEY (repo, name)", "cipherstore.repository PRIMARY KEY (repo)",
                    "cipherstore.writer PRIMARY KEY (repo, author)",
                ])
        }

        @Test("the tables have the columns that Docs/Formats/PostgreSQL.md tabulates")
        func document() throws {
            try database.store().setup()
            let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
            let text = try String(contentsOf: root.appending(path: "Docs/Formats/PostgreSQL.md"), encoding: .utf8)
            var table = ""
            let documented = text.split(separator: "\n").compactMap { line -> String? in
                let cells = line.split(separator: "|").map { $0.filter { !" `".contains($0) } }
                guard line.hasPrefix("|"), cells.count == 4, ["bytea", "bigint", "text"].contains(cells[2]) else {
                    return nil
                }
                if !cells[0].isEmpty { table = cells[0] }
                return "\(table).\(cells[1]) \(cells[2])"
            }
            let columns = try database.texts(
                """
                SELECT table_name || '.' || column_name || ' ' || data_type FROM information_schema.columns
                WHERE table_schema = 'cipherstore'
                """)
            #expect(Set(columns) == Set(documented) && documented.count == 10)
        }

        @Test("a user who may not make tables uses those of an administrator, with SELECT and INSERT alone")
        func rights() throws {
            for sql in [
                "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
            ] { try database.run(sql) }
            let store = try database.store(user: "reader")
            #expect(Make.code { try store.setup() } == .missingRights)
            #expect(Make.code { try store.put([1]) } == .missingRights)
            for sql in PostgreSQLObjectStore.setupStatements { try database.run(sql) }
            #expect(Make.code { try store.setup() } == .missingRights)
            try database.run("GRANT USAGE ON SCHEMA cipherstore TO reader")
            #expect(listing(store) == .missingRights)
            try database.run("GRANT SELECT ON ALL TABLES IN SCHEMA cipherstore TO reader")
            try store.setup()
            #expect(listing(store) == nil)
            #expect(Make.code { try store.put([1]) } == .missingRights)
            try database.run("GRANT INSERT ON cipherstore.repository, cipherstore.object TO reader")
            #expect(try store.put([1]) == [.stored])
            #expect(Make.code { try store.delete(Make.name(1)) } == .missingRights)
            try database.run("ALTER ROLE reader CONNECTION LIMIT 0")
            var settings = PostgreSQLObjectStore.Settings()
            settings.attempts = 2
            #expect(listing(try database.store(settings: settings, user: "reader")) == .tooManyConnections)
            store.close()
            for sql in ["DROP OWNED BY reader", "DROP ROLE reader"] { try database.run(sql) }
        }

        /// Two roles with all rights of a writer, on tables of an administrator. Roles are of the whole server.
        private func roles() throws -> (TestDatabase, one: PostgreSQLObjectStore, two: PostgreSQLObjectStore) {
            let database = try TestDatabase(PostgresServer())
            for sql in PostgreSQLObjectStore.setupStatements { try database.run(sql) }
            for role in ["reader", "member"] {
                for sql in [
                    "CREATE ROLE \(role) LOGIN", "GRANT USAGE ON SCHEMA cipherstore TO \(role)",
                    "GRANT SELECT, INSERT, DELETE ON ALL TABLES IN SCHEMA cipherstore TO \(role)",
                ] { try database.run(sql) }
            }
            return (database, try database.store(user: "reader"), try database.store(user: "member"))
        }

        /// Runs SQL as a role.
        private func code(_ database: TestDatabase, as role: String, _ sql: String) -> PostgreSQLError.Code? {
            Make.code {
                let connection = try TestDatabase.connect(database.server.url(database.name, user: role))
                return try connection.run(Statement(sql), within: .seconds(20))
            }
        }

        @Test("a role removes objects that it has put, and no others; nobody puts objects as another role")
        func removal() throws {
            let (database, one, two) = try roles()
            try one.put([1, 2])
            try two.put([3])
            #expect(Make.code { try two.delete(Make.name(1)) } == .missingRights)
            #expect(try two.names().count == 3 && two.get(1) == Make.object(1))
            try one.delete(Make.name(1))
            try two.delete(Make.name(1))
            #expect(try two.names() == [2, 3].map { Make.name($0) })
            let forged = """
                INSERT INTO cipherstore.object (repo, name, body, role)
                VALUES ('\\x\(Make.repository())', '\(Make.name(9))', '', 'member')
                """
            #expect(code(database, as: "reader", forged) == .missingRights)
            #expect(code(database, as: "member", forged) == nil)
            #expect(code(database, as: "member", "UPDATE cipherstore.object SET body = ''") == .missingRights)
        }

        @Test("a role puts segments of its own author alone, once the table writer says so")
        func ownLog() throws {
            let (database, one, two) = try roles()
            func put(_ store: PostgreSQLObjectStore, _ number: Int, of author: Int) -> PostgreSQLError.Code? {
                Make.code { try store.put(Make.segment(number, of: author), [1]) }
            }
            func owner(of author: Int, _ role: String) -> String {
                """
                INSERT INTO cipherstore.writer VALUES ('\\x\(Make.repository())', '\(Make.author(author))', '\(role)')
                """
            }
            // Nobody has a log of its own: a replica puts what it has from others.
            #expect(put(one, 1, of: 1) == nil && put(one, 2, of: 2) == nil)
            try database.run(owner(of: 1, "reader"))
            #expect(put(two, 3, of: 1) == .missingRights && put(one, 3, of: 1) == nil)
            // A role with a log writes no other one; a role without writes the logs that are nobody's.
            #expect(put(one, 4, of: 2) == .missingRights && put(two, 4, of: 2) == nil)
            // These have no author.
            #expect(try one.put([1]) == [.stored] && two.put([2]) == [.stored])
            #expect(try two.put("p/" + Make.name(7).dropFirst(2), [1]) == .stored)
            #expect(code(database, as: "member", owner(of: 3, "member")) == .missingRights)
            #expect(try two.names("c/").count == 4)
        }

        @Test("a wrong password, user, database, host, port or certificate is named, and no password is printed")
        func refusals() throws {
            let server = database.server
            for sql in ["DROP ROLE IF EXISTS walter", "CREATE ROLE walter LOGIN PASSWORD 'right-one'"] {
                try database.run(sql)
            }
            let folder = server.folder
            let cases: [(String, [PostgreSQLError.Code?])] = [
                ("postgresql://walter:right-one@/\(database.name)?host=\(folder)", [nil]),
                ("postgresql://walter:wrong-secret@/\(database.name)?host=\(folder)", [.wrongPassword]),
                ("postgresql://walter@/\(database.name)?host=\(folder)&passfile=/nowhere", [.wrongPassword]),
                ("postgresql://stranger:wrong-secret@/\(database.name)?host=\(folder)", [.refusedUser]),
                ("postgresql://tester:wrong-secret@/none?host=\(folder)", [.missingDatabase]),
                ("postgresql://tester:wrong-secret@/none?host=\(folder)&port=1", [.unreachable]),
                ("postgresql://tester:wrong-secret@/none?host=/nowhere", [.unreachable]),
                ("postgresql://tester:wrong-secret@127.0.0.1:1/none", [.unreachable]),
                ("postgresql://tester:wrong-secret@host.invalid/none", [.unknownHost]),
                (
                    "postgresql://tester:wrong-secret@/\(database.name)?host=\(folder)&sslmode=verify-full&sslrootcert=/no",
                    [nil, .encryptionFailed]
                ),
            ]
            var settings = PostgreSQLObjectStore.Settings()
            settings.attempts = 1
            for (url, codes) in cases {
                let store = try PostgreSQLObjectStore(url: url, repository: Make.repository(), settings: settings)
                let error = Make.error(PostgreSQLError.self) { try store.list("") }
                #expect(codes.contains(error?.code), "\(store.name): \(String(describing: error))")
                for text in [
                    store.name, store.description, "\(String(describing: error))", "\(store)",
                    String(reflecting: error),
                ] {
                    #expect(!text.contains("wrong-secret") && !text.contains("walter"))
                }
                var dumped = ""
                dump(store, to: &dumped)
                #expect(!dumped.contains("wrong-secret") && !dumped.contains("right-one"))
            }
            try database.run("DROP ROLE walter")
        }

        @Test("tables of a later layout, tables of another program, and other repositories are told apart")
        func others() throws {
            try database.store(Make.repository(1)).put([1])
            let store = try database.store()
            #expect(listing(store) == .otherRepository)
            #expect(Make.code { try store.put([1]) } == .otherRepository)
            let shared = try database.store(sharedWithOthers: true)
            #expect(try shared.list("").isEmpty && shared.put([1, 2]) == [.stored, .stored])
            #expect(try store.names().count == 2)
            #expect(try database.store(Make.repository(1)).names().count == 1)
            try database.run("UPDATE cipherstore.repository SET layout = 3")
            #expect(listing(store) == .unknownLayout)
            #expect(Make.code { try store.put([3]) } == .unknownLayout)
            #expect(Make.code { try database.store().put([3]) } == .unknownLayout)
            #expect(try database.objectCount() == 3)
            let foreign = try TestDatabase()
            try foreign.run("CREATE SCHEMA cipherstore")
            for table in ["repository", "object", "writer"] {
                try foreign.run("CREATE TABLE cipherstore.\(table) (repo text, number integer)")
            }
            #expect(Make.code { try foreign.store().setup() } == .foreignTables)
            #expect(listing(try foreign.store()) == .foreignTables)
            #expect(Make.code { try foreign.store().put([1]) } == .foreignTables)
        }

        @Test("tables that are partitioned by hash serve as well")
        func partitions() throws {
            let keys = ["repository": "repo", "writer": "repo, author", "object": "repo, name"]
            for sql in PostgreSQLObjectStore.setupStatements {
                let words = sql.split { " (\n".contains($0) }.map(String.init)
                guard words[0] == "CREATE", words[1] == "TABLE" else {
                    try database.run(sql)
                    continue
                }
                let key = try #require(keys[String(words[2].dropFirst("cipherstore.".count))])
                try database.run("\(sql) PARTITION BY HASH (\(key))")
                for number in 0..<4 {
                    let part = "\(words[2])_\(number) PARTITION OF \(words[2])"
                    try database.run("CREATE TABLE \(part) FOR VALUES WITH (MODULUS 4, REMAINDER \(number))")
                }
            }
            let store = try database.store()
            #expect(try store.put(1...50).allSatisfy { $0 == .stored })
            #expect(try store.put(1...50).allSatisfy { $0 == .alreadyPresent })
            #expect(try store.names() == (1...50).map { Make.name($0) } && store.get(9) == Make.object(9))
            try store.delete(Make.name(9))
            #expect(try database.store().list("").count == 49)
        }

        @Test("an idle connection is closed, and a lost one is noticed before it is used")
        func idle() throws {
            var settings = PostgreSQLObjectStore.Settings()
            settings.attempts = 1
            let strict = try database.store(settings: settings)
            try strict.put([1])
            let others = """
                SELECT pid::text FROM pg_stat_activity WHERE datname = '\(database.name)' AND pid <> pg_backend_pid()
                """
            let pid = try #require(try database.texts(others).first)
            _ = try database.texts("SELECT pg_terminate_backend(\(pid))::text")
            _ = try database.first("SELECT 'gone' WHERE NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = \(pid))")
            #expect(try strict.get(1) == Make.object(1))
            strict.close()
            _ = try database.first("SELECT 'gone' WHERE NOT EXISTS (\(others))")
            #expect(try strict.get(1) == Make.object(1))
        }

        @Test("a server that accepts and says nothing is given up in time, and another host of the URL is tried")
        func silentServer() throws {
            let silent = try SocketListener { _ = $0.read(1_000_000) }
            defer { withExtendedLifetime(silent) {} }
            var settings = PostgreSQLObjectStore.Settings()
            settings.connectLimit = .milliseconds(600)
            settings.attempts = 1
            let alone = try database.store(settings: settings, through: silent.folder)
            let began = ContinuousClock.now
            #expect(listing(alone) == .timedOut)
            #expect(ContinuousClock.now - began < .seconds(20))
            settings.connectLimit = .seconds(5)
            let both = try database.store(settings: settings, through: "\(silent.folder),\(database.server.folder)")
            #expect(try both.put([1, 2]) == [.stored, .stored])
            #expect(both.name.hasSuffix("?host=\(silent.folder),\(database.server.folder)"))
        }

        @Test("over TLS, with the certificate verified: objects and a cancellation; another certificate is refused")
        func encrypted() throws {
            let server = try PostgresServer(port: SocketListener.freePort())
            let own = try TestDatabase(server)
            let certificate = FileManager.default.temporaryDirectory.appending(path: "\(own.name).crt")
            defer { try? FileManager.default.removeItem(at: certificate) }
            let text = try own.texts("SELECT pg_read_file('server.crt')")
            try text.joined().write(to: certificate, atomically: true, encoding: .utf8)
            func store(host: String, _ options: String, limit: Duration = .seconds(60)) throws -> PostgreSQLObjectStore
            {
                var settings = PostgreSQLObjectStore.Settings()
                settings.attempts = 1
                settings.statementLimit = limit
                return try PostgreSQLObjectStore(
                    url: "postgresql://tester@\(host):\(server.port)/\(own.name)?hostaddr=127.0.0.1&\(options)",
                    repository: Make.repository(), settings: settings)
            }
            let options = "sslmode=verify-full&sslrootcert=\(certificate.path)"
            let good = try store(host: "server.test", options)
            let bytes = (0..<10).map { Make.bytes(400_000, seed: $0 + 1) }
            for number in 0..<10 { #expect(try good.put(Make.name(number), bytes[number]) == .stored) }
            for number in 0..<10 { #expect(try good.get(Make.name(number), limitBytes: 500_000) == bytes[number]) }
            let encrypted = """
                SELECT count(*)::text FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                WHERE ssl AND application_name = 'CipherStore'
                """
            #expect(try own.texts(encrypted) == ["1"])
            try own.run(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); END'")
            try own.run("CREATE TRIGGER t BEFORE INSERT ON cipherstore.object EXECUTE FUNCTION slow()")
            let impatient = try store(host: "server.test", options, limit: .seconds(1))
            let put = Work { Make.code { try impatient.put([100]) } }
            let pid = try own.first("SELECT pid::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            #expect(try put.value() == .timedOut)
            try own.waitUntilIdle(pid)
            #expect(try good.list("").count == 10)
            #expect(listing(try store(host: "other.test", options)) == .encryptionFailed)
            #expect(listing(try store(host: "server.test", "sslmode=disable")) == .refusedUser)
            let system = try store(
                host: "server.test", "sslmode=verify-full&sslrootcert=/etc/ssl/certs/ca-certificates.crt")
            #expect(listing(system) == .encryptionFailed)
        }

        @Test(
            "through pgbouncer with transaction pooling, many callers share two connections of the server",
            .enabled(if: PostgresServer.pooler != nil))
        func pooler() throws {
            let server = try PostgresServer()
            let own = try TestDatabase(server)
            let folder = server.startPooler()
            _ = try Work.all(12) { number in
                let store = try own.store(through: folder)
                try store.put((0..<20).map { number * 15 + $0 })
                #expect(try store.get(number * 15) == Make.object(number * 15))
                #expect(try store.list("").count >= 20)
            }
            #expect(try own.store(through: folder).list("").count == 11 * 15 + 20)
            let backends =
                "SELECT count(*)::text FROM pg_stat_activity WHERE datname = '\(own.name)' AND pid <> pg_backend_pid()"
            #expect(Int(try own.texts(backends)[0])! <= 2)
        }
    }
#endif
