#if S3
    import Foundation
    import ObjectServers
    import Synchronization
    import TestKit
    import Testing

    @Suite("cipherctl with a repository at object storage")
    struct ServerRepositoryCommandTests {
        private let place: Workplace
        private static let keys = ["AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "not a secret"]

        init() throws {
            place = try Workplace()
            try place.makeStore()
        }

        private func run(
            _ server: ObjectServer?, _ arguments: [String], key: Bool = true, _ environment: [String: String] = keys
        ) throws -> CommandRun.Outcome {
            try place.run(
                arguments + (key ? ["--raw-key-file", place.key] : []),
                environment: environment.merging(server.map { ["AWS_ENDPOINT_URL": $0.url] } ?? [:]) { $1 })
        }

        @Test("a series of backups is listed, verified, read, restored and pruned as in a folder")
        func series() throws {
            let server = try ObjectServer()
            let name = "s3://backups/app"
            let sql = ["SELECT count(*) AS n FROM t", "--mode", "csv"]
            let rows = try place.ctl("sql", place.path("s.db"), sql[0], "--mode", "csv").output
            let none = try run(server, ["backup", "s.db", "--to", name])
            #expect(none.status == 66 && none.errors.contains("--create"), "\(none.errors)")
            let made = try run(server, ["backup", "s.db", "--to", name + "/", "--create", "--json"])
            let first = try #require(made.json["backup"] as? String, "\(made.errors)")
            try #require(place.ctl("sql", place.path("s.db"), "DELETE FROM t", "--write").status == 0)
            let second = try run(
                server, ["backup", "s.db", "--to", name, "--endpoint", server.url, "--bandwidth", "100", "--json"])
            #expect(second.status == 0 && second.json["parent"] as? String == first, "\(second.errors)")
            let listed = try run(server, ["backup", "list", name], key: false)
            #expect(listed.output.split(separator: "\n").count == 2, "\(listed.errors)")
            let verified = try run(server, ["backup", "verify", name, "--sample", "50%", "--json"])
            #expect(verified.status == 0 && verified.json["authentic"] as? Int == 2, "\(verified.errors)")
            let read = try run(server, ["sql", "\(name)@\(first.prefix(8))"] + sql)
            #expect(read.output == rows, "\(read.errors)")
            let restored = try run(server, ["restore", name, "new.db", "--backup", first])
            #expect(restored.status == 0, "\(restored.errors)")
            #expect(try place.ctl("sql", place.path("new.db"), sql[0], "--mode", "csv").output == rows)
            let pruned = try run(server, ["backup", "prune", name, "--keep-last", "1", "--yes", "--json"], key: false)
            #expect(pruned.status == 0 && pruned.json["removed"] as? Int == 1, "\(pruned.errors)")
            #expect(!server.names.contains { $0.contains("/u/") || $0.contains("/x/") })
        }

        @Test("a store is replicated there, and restored as it was")
        func replica() throws {
            let server = try ObjectServer()
            let replicate = ["replicate", "s.db", "--to", "s3://backups/replica", "--once"]
            let made = try run(server, replicate + ["--create"], key: false)
            #expect(made.status == 0, "\(made.errors)")
            try #require(place.ctl("sql", place.path("s.db"), "DELETE FROM t WHERE id > 7", "--write").status == 0)
            #expect(try run(server, replicate, key: false).status == 0)
            let restored = try run(server, ["restore", "s3://backups/replica", "new.db"])
            #expect(restored.status == 0, "\(restored.errors)")
            let rows = try place.ctl("sql", place.path("new.db"), "SELECT count(*) FROM t", "--mode", "csv")
            #expect(rows.output.split(whereSeparator: \.isNewline).last == "7", "\(rows.output)\(rows.errors)")
        }

        @Test("every bad input gets its exit code and a sentence")
        func badInput() throws {
            let server = try ObjectServer()
            #expect(try run(server, ["backup", "s.db", "--to", "s3://backups/r", "--create"]).status == 0)
            server.with { $0.objects["photo/cat"] = .init(bytes: [1], stored: 0) }
            try place.write("[default]\naws_access_key_id=A\naws_secret_access_key=B\n", to: "credentials")
            try place.write("[default]\naws_access_key_id=A\naws_secret_access_key=B\n", to: "open", mode: 0o644)
            let json = "{\"Version\":1,\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"B\"}"
            try place.write(json, to: "json")
            let list = ["backup", "list", "s3://backups/r"]
            let cases: [(arguments: [String], environment: [String: String], status: Int32)] = [
                (["backup", "list", "s3://Backups/r"], Self.keys, 64), (["backup", "list", "s3:/r"], Self.keys, 64),
                (["backup", "list", "s3://backups/none"], Self.keys, 66),
                (["backup", "verify", "s3://backups/none"], Self.keys, 66),
                (["restore", "s3://backups/none", "n.db"], Self.keys, 66),
                (["sql", "s3://backups/r@00000000", "SELECT 1"], Self.keys, 66),
                (["backup", "s.db", "--to", "s3://backups/photo", "--create"], Self.keys, 64),
                (list + ["--endpoint", "http://example.org"], Self.keys, 64),
                (list + ["--bandwidth", "0"], Self.keys, 64),
                (["backup", "list", "s.db", "--bandwidth", "1"], Self.keys, 64),
                (list, ["HOME": place.folder.url.path], 77), (list, ["AWS_ACCESS_KEY_ID": "A"], 77),
                (list, ["AWS_SHARED_CREDENTIALS_FILE": place.path("credentials")], 0),
                (list + ["--s3-credentials-file", "credentials"], [:], 0),
                (list + ["--s3-credentials-file", "open"], [:], 77),
                (list + ["--s3-credentials-file", "none"], [:], 66),
                (list + ["--s3-credentials-command", "cat \(place.path("json"))"], [:], 0),
                (list + ["--s3-credentials-command", "false"], [:], 77),
                (list + ["--s3-credentials-command", "echo {}"], [:], 77),
                (list + ["--s3-credentials-command", "a 'b"], [:], 64),
                (list + ["--endpoint", "http://127.0.0.1:\(try Loopback.freePort())"], Self.keys, 75),
                (list, Self.keys.merging(["CIPHERSTORE_S3_ADDRESSING": "odd"]) { $1 }, 64),
            ]
            for (arguments, environment, status) in cases {
                let isKeyed = arguments[0] != "backup" || arguments[1] == "s.db"
                let outcome = try run(server, arguments, key: isKeyed, environment)
                #expect(outcome.status == status, "\(arguments): \(outcome.errors)")
                #expect(outcome.status == 0 || outcome.errors.contains("hint: "), "\(arguments): \(outcome.errors)")
            }
        }

        @Test("a refusal of the server has its exit code, its name and a hint")
        func refusals() throws {
            let cases: [(status: Int, code: String, name: String, exit: Int32)] = [
                (403, "AccessDenied", "s3AccessDenied", 77), (404, "NoSuchBucket", "noSuchBucket", 66),
                (403, "RequestTimeTooSkewed", "clockSkew", 1), (301, "PermanentRedirect", "otherRegion", 64),
            ]
            for (status, code, name, exit) in cases {
                let server = try ObjectServer { _, _ in .status(status, code: code) }
                let outcome = try run(server, ["backup", "list", "s3://backups/r", "--json"], key: false)
                #expect(outcome.status == exit, "\(outcome.errors)")
                #expect(outcome.errorJSON["code"] as? String == name, "\(outcome.errors)")
                #expect((outcome.errorJSON["hint"] as? String)?.isEmpty == false)
                #expect(!outcome.errors.contains("not a secret"))
            }
        }

        @Test("a backup and a prune that are killed at a call leave every backup whole, and the next ones complete")
        func killed() throws {
            let target = Mutex<(pid: Int32, call: Int)>((0, .max))
            let calls = Atomic<Int>(0)
            let server = try ObjectServer { _, _ in
                let number = calls.wrappingAdd(1, ordering: .relaxed).newValue
                let pid = target.withLock { $0.call == number ? $0.pid : 0 }
                if pid > 0 { kill(pid, SIGKILL) }
                return nil
            }
            let name = "s3://backups/r"
            try #require(run(server, ["backup", "s.db", "--to", name, "--create"]).status == 0)
            let work = [
                ["backup", place.path("s.db"), "--to", name, "--raw-key-file", place.key],
                ["backup", "prune", name, "--keep-last", "1", "--yes"],
            ]
            for (index, arguments) in work.enumerated() {
                var call = 2 + Sweep.first(oneIn: 8, offset: index)
                var isKilled = true
                while isKilled {
                    try #require(
                        place.ctl("sql", place.path("s.db"), "INSERT INTO t VALUES (NULL, 'x')", "--write").status == 0)
                    if index == 1 { try #require(run(server, ["backup", "s.db", "--to", name]).status == 0) }
                    server.age("", by: 4000)
                    calls.store(0, ordering: .relaxed)
                    target.withLock { $0 = (0, call) }
                    let command = try CommandRun(
                        Workplace.program(), arguments,
                        environment: Self.keys.merging(["AWS_ENDPOINT_URL": server.url]) { $1 })
                    target.withLock { $0 = (command.processIdentifier, call) }
                    isKilled = command.finish().status == 128 + SIGKILL
                    target.withLock { $0 = (0, .max) }
                    server.age("", by: 4000)
                    let verified = try run(server, ["backup", "verify", name])
                    #expect(verified.status == 0, "\(arguments[1]) \(call): \(verified.errors)")
                    let next = try run(server, ["backup", "s.db", "--to", name])
                    #expect(next.status == 0, "\(arguments[1]) \(call): \(next.errors)")
                    call += Sweep.stride(8)
                }
            }
            server.age("", by: 4000)
            #expect(try run(server, ["backup", "prune", name, "--keep-last", "1", "--yes"], key: false).status == 0)
            #expect(!server.names.contains { $0.hasPrefix("r/u/") || $0.hasPrefix("r/x/") })
            #expect(server.names.count { $0.hasPrefix("r/b/") } == 1)
        }
    }
#endif
