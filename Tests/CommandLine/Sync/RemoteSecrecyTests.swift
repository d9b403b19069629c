import Foundation
import TestKit
import Testing

/// Every byte of a remote is looked at for what a remote must not learn.
@Suite("What a remote sees")
struct RemoteSecrecyTests {
    private let place: SyncPlace
    private let stores = ["canary-phone.db", "canary-laptop.db"]

    init() throws { place = try SyncPlace() }

    /// The texts that must not be readable: a name for the report, and the bytes.
    private typealias Canary = (name: String, bytes: [UInt8])

    private static let texts = [
        "canary_table", "canary_key", "canary_column", "canary_default", "canary_index", "canary-first",
        "canary-changed", "canary-second", "canary-deleted", "canary-meta", "canary-long", "canary-phone",
        "canary-laptop", "canary-member",
    ]

    private static let schema = """
        CREATE TABLE canary_table (canary_key TEXT PRIMARY KEY NOT NULL, canary_column DEFAULT 'canary_default');
        CREATE UNIQUE INDEX canary_index ON canary_table (canary_column);
        """

    // MARK: Work

    /// Two stores write all kinds of values, merge, and push, one commit in several parts.
    private func work(at remote: String) throws {
        for name in stores {
            #expect(try place.place.ctl("create", place.place.path(name)).status == 0)
            try place.sql(name, Self.schema)
        }
        let begun = try place.sync(
            "init", stores[0], "--table", "canary_table", "--remote", remote, "--name", "canary-member")
        try #require(begun.status == 0, "\(begun.errors)")
        let invited = try place.invite(stores[0], "app.invitation")
        try #require(invited.status == 0, "\(invited.errors)")
        let joined = try place.place.run(
            [
                "sync", "join", place.place.path(stores[1]), place.place.path("app.invitation"), "--name",
                "canary-member",
            ]
                + ["--table", "canary_table", "--raw-key-file", place.place.key, "--remote", remote]
                + ["--invitation-raw-key-file", place.invitationKey])
        try #require(joined.status == 0, "\(joined.errors)")
        try commit(
            0,
            """
            INSERT INTO canary_table VALUES ('canary-first', 0x43414e4152592121), ('canary-second', x'\(Self.blob)'),
            ('canary-deleted', 1.2345678901234e-200);
            INSERT INTO canary_table SELECT 'canary-long', replace(hex(zeroblob(60000)), '0', 'canary-long ');
            """)
        try run(0, 1)
        try commit(0, "UPDATE canary_table SET canary_column = 'canary-changed' WHERE canary_key = 'canary-first'")
        try commit(1, "DELETE FROM canary_table WHERE canary_key = 'canary-deleted'")
        try run(0, 1, 0)
        let rows = try stores.map {
            let sql = "SELECT canary_key, hex(canary_column) FROM canary_table ORDER BY 1"
            return try place.place.ctl("sql", place.place.path($0), sql, "--mode", "csv").output
        }
        #expect(rows[0] == rows[1] && rows[0].split(separator: "\r\n").count == 4)
    }

    private static let blob = "c3a7f1905be24d68"

    private func commit(_ store: Int, _ sql: String) throws {
        let outcome = try place.sync("commit", stores[store], sql, "--meta", "{\"by\": \"canary-meta\"}")
        try #require(outcome.json["commit"] is String, "\(outcome.errors)")
    }

    private func run(_ order: Int...) throws {
        for store in order {
            let outcome = try place.sync("run", stores[store])
            try #require(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
        }
    }

    // MARK: Looking

    /// The values of a query that returns hexadecimal digits.
    private func bytes(_ sql: String) throws -> [[UInt8]] {
        let output = try place.place.ctl("sql", place.place.path(stores[0]), sql, "--mode", "csv").output
        return output.split(separator: "\r\n").dropFirst().map { line in
            let digits = Array(line.utf8)
            return stride(from: 0, to: digits.count - 1, by: 2).compactMap {
                UInt8(String(decoding: digits[$0...$0 + 1], as: UTF8.self), radix: 16)
            }
        }
    }

    private func canaries() throws -> [Canary] {
        var canaries: [Canary] = Self.texts.map { ($0, Array($0.utf8)) }
        canaries.append(("integer", Array("CANARY!!".utf8)))
        canaries.append(("real", withUnsafeBytes(of: 1.2345678901234e-200.bitPattern.bigEndian, Array.init)))
        canaries.append(("blob", [0xc3, 0xa7, 0xf1, 0x90, 0x5b, 0xe2, 0x4d, 0x68]))
        for (name, sql) in [
            ("roster", "SELECT hex(roster) FROM cipherstore_repository_identity"),
            ("half of the roster", "SELECT hex(substr(roster, 9, 16)) FROM cipherstore_repository_identity"),
            ("signing key", "SELECT hex(signing) FROM cipherstore_repository_identity"),
            ("agreement key", "SELECT hex(agreement) FROM cipherstore_repository_identity"),
            ("epoch", "SELECT hex(secret) FROM cipherstore_repository_epoch"),
            ("author", "SELECT hex(id) FROM cipherstore_repository_author"),
            ("hash", "SELECT hex(hash) FROM cipherstore_repository_commit WHERE length(hash) = 32"),
            ("time", "SELECT printf('%016X', time) FROM cipherstore_repository_commit"),
        ] {
            let found = try bytes(sql)
            #expect(!found.isEmpty && found.allSatisfy { $0.count >= 8 }, "\(name)")
            canaries += found.map { (name, $0) }
        }
        #expect(canaries.count { $0.name == "author" } == 2 && canaries.count { $0.name == "time" } >= 3)
        return canaries
    }

    /// The names of those that are in some bytes, as they are or as hexadecimal digits.
    private func readable(_ canaries: [Canary], in content: Data) -> [String] {
        canaries.filter { canary in
            let lower = Array(canary.bytes.map { String(format: "%02x", $0) }.joined().utf8)
            let upper = Array(canary.bytes.map { String(format: "%02X", $0) }.joined().utf8)
            return [canary.bytes, lower, upper].contains { content.holds(Data($0)) }
        }.map(\.name)
    }

    /// Replaces all commits by a snapshot, and removes a member: the remote has a snapshot, an epoch and a commit after that.
    private func compact() throws {
        let members = try #require(place.sync("members", stores[0]).json["members"] as? [[String: Any]])
        let other = try #require(members.first { $0["this_store"] as? Bool == false }?["member"] as? String)
        let made = try place.sync("snapshot", stores[0])
        try #require(made.status == 0, "\(made.output)\(made.errors)")
        #expect(try place.sync("members", stores[0], "--remove", other, "--yes").status == 0)
        try commit(0, "UPDATE canary_table SET canary_column = 'canary-first' WHERE canary_key = 'canary-first'")
        try run(0)
    }

    private func expectSecret(_ canaries: [Canary], _ contents: Data...) throws {
        let repository = try bytes("SELECT hex(repository) FROM cipherstore_repository_state")[0]
        for content in contents {
            #expect(content.count > 1_000_000)
            #expect(readable(canaries, in: content) == [])
            // The searched text would be found, at its end as well: one behind all of it, the others behind its last part.
            #expect(readable([("repository", repository)], in: content) == ["repository"])
            #expect(readable([canaries[0]], in: content + canaries[0].bytes) == [canaries[0].name])
            let last = Data(content.suffix(10_000))
            for canary in canaries { #expect(readable([canary], in: last + canary.bytes) == [canary.name]) }
        }
    }

    // MARK: Tests

    @Test("no byte of a folder has names, values, descriptions, authors, times or keys")
    func folder() throws {
        try work(at: place.remote)
        let canaries = try canaries()
        try expectSecret(canaries, place.content(of: "remote"))
        try compact()
        try expectSecret(canaries, place.content(of: "remote"))
    }

    @Test("no byte of a server's dump, or of its files and its log, has any of that")
    func server() throws {
        let server = try PostgresServer()
        let database = try server.makeDatabase()
        try work(at: server.url(database))
        let canaries = try canaries()
        let history = Data(try server.output(of: "pg_dump", [database]).utf8)
        try compact()
        try server.output(of: "psql", ["-c", "CHECKPOINT", database])
        let dump = Data(try server.output(of: "pg_dump", [database]).utf8)
        var files = Data()
        let names = FileManager.default.enumerator(atPath: server.folder)?.compactMap { $0 as? String } ?? []
        for name in names.sorted() {
            files += Data(name.utf8)
            files += FileManager.default.contents(atPath: "\(server.folder)/\(name)") ?? Data()
        }
        #expect(files.holds(Data("database system is ready to accept connections".utf8)))
        try expectSecret(canaries, history, dump, files)
    }
}
