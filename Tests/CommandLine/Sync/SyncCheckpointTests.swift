import Foundation
import TestKit
import Testing

@Suite("cipherctl sync checkpoint")
struct SyncCheckpointTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    private func begin(at remote: String) throws {
        for name in ["a.db", "b.db", "c.db"] { try place.makeStore(name) }
        let begun = try place.sync("init", "a.db", "--table", "player", "--remote", remote)
        try #require(begun.status == 0, "\(begun.errors)")
        try #require(try place.invite("a.db", "file").status == 0)
        for name in ["b.db", "c.db"] { try #require(try place.join(name, "file", ["--remote", remote]).status == 0) }
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1), ('2', 'Ben', 2)")
    }

    private func run(_ names: String...) throws {
        for name in names {
            let outcome = try place.sync("run", name)
            try #require(outcome.status == 0, "\(outcome.errors)")
        }
    }

    @Test("history goes when all devices have it; one that was away rejoins with its work, and a new one begins there")
    func checkpoint() throws { try replaceAndRejoin(at: place.remote) }

    #if PostgreSQL
        @Test("the same at a server, whose tables an earlier version has made")
        func serverCheckpoint() throws {
            let server = try PostgresServer.shared.get()
            let database = try server.makeDatabase()
            try begin(at: server.url(database))
            try server.output(of: "psql", ["-c", "DROP TABLE cipherstore.acknowledgement", database])
            try replaceAndRejoin(at: server.url(database), isBegun: true)
        }

        /// The objects that are replaced are gone, the entries of the logs are not.
        @Test("a process that is killed between deleting and the end: another one completes the checkpoint")
        func killed() throws {
            let server = try PostgresServer.shared.get()
            let database = try server.makeDatabase()
            func query(_ sql: String) throws -> String {
                try server.output(of: "psql", ["-At", "-c", sql, database]).trimmingCharacters(in: .newlines)
            }
            try begin(at: server.url(database))
            try run("a.db", "b.db", "c.db", "a.db")
            try place.commit("b.db", "UPDATE player SET score = 10 WHERE id = '1'")
            try run("b.db", "a.db", "c.db", "b.db", "a.db")
            _ = try query(
                """
                CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN OLD; END';
                CREATE TRIGGER t BEFORE DELETE ON cipherstore.log EXECUTE FUNCTION wait();
                """)
            let maker = try CommandRun(
                Workplace.program(),
                ["sync", "checkpoint", place.place.path("a.db"), "--raw-key-file", place.place.key, "--json"])
            let waiting = """
                SELECT pid FROM pg_stat_activity WHERE datname = '\(database)' AND wait_event = 'PgSleep'
                """
            #expect(try waitUntil(within: .seconds(60)) { try !query(waiting).isEmpty }, "\(maker.errorsSoFar)")
            maker.send(SIGKILL)
            #expect(maker.finish().status == 128 + SIGKILL)
            #expect(try query("SELECT pg_terminate_backend(\(query(waiting)))") == "t")
            #expect(try query("DROP TRIGGER t ON cipherstore.log") == "DROP TRIGGER")
            // Those of the one log, perhaps not those of the other.
            let objects = "SELECT count(*) || ' ' || (SELECT count(*) FROM cipherstore.log) FROM cipherstore.object"
            #expect(try ["2 2", "3 2"].contains(query(objects)))
            // A new device begins with it nevertheless.
            try place.makeStore("d.db")
            try #require(place.join("d.db", "file", ["--remote", server.url(database)]).status == 0)
            try run("d.db", "c.db")
            let made = try place.sync("checkpoint", "a.db")
            #expect(made.status == 0 && made.json["rows"] as? Int == 2, "\(made.output)\(made.errors)")
            #expect(try query(objects) == "2 2")
            try place.commit("d.db", "UPDATE player SET name = 'Dan' WHERE id = '2'")
            try run("d.db", "a.db", "b.db", "c.db")
            for name in ["b.db", "c.db", "d.db"] { #expect(try place.players(name) == place.players("a.db")) }
        }
    #endif

    private func replaceAndRejoin(at remote: String, isBegun: Bool = false) throws {
        if !isBegun { try begin(at: remote) }
        try run("a.db", "b.db", "c.db", "a.db")
        try place.commit("a.db", "UPDATE player SET score = 10 WHERE id = '1'")
        try place.commit("c.db", "INSERT INTO player VALUES ('3', 'Cleo', 3)")
        try run("a.db", "b.db", "a.db")
        let waiting = try place.sync("checkpoint", "a.db").json
        #expect(waiting["checkpoint"] is NSNull || (waiting["rows"] as? Int) == 2)
        let status = try place.sync("status", "a.db")
        let remotes = try #require(status.json["remotes"] as? [[String: Any]])
        let replicas = try #require(remotes.first?["replicas"] as? [[String: Any]])
        #expect(replicas.count == 3 && replicas.count { $0["this_store"] as? Bool == true } == 1)
        let head = try #require(status.json["head"] as? String)
        let late = try #require(replicas.first { $0["commit"] as? String != head }?["replica"] as? String)
        #expect(try place.sync("retire", "a.db", "ffffffffff").status == 64)
        #expect(try place.sync("retire", "a.db", String(late.prefix(8))).json["retired"] as? String == late)
        let made = try place.sync("checkpoint", "a.db")
        #expect(made.status == 0 && made.json["checkpoint"] as? String == head && made.json["rows"] as? Int == 2)
        let refused = try place.sync("run", "c.db")
        #expect(refused.status == 2 && refused.errorJSON["code"] as? String == "baseTooOld")
        #expect((refused.errorJSON["hint"] as? String)?.contains("cipherctl sync rejoin") == true)
        let back = try place.sync("rejoin", "c.db")
        #expect(back.status == 0 && back.json["commit"] is String, "\(back.errors)")
        try place.makeStore("d.db")
        try #require(try place.join("d.db", "file", ["--remote", remote]).status == 0)
        try run("c.db", "a.db", "b.db", "d.db")
        for name in ["b.db", "c.db", "d.db"] { #expect(try place.players(name) == place.players("a.db")) }
        #expect(try place.players("d.db").contains("Cleo"))
    }
}
