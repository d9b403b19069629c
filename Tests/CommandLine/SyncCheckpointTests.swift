import Foundation
import Testing

@Suite("cipherctl sync checkpoint")
struct SyncCheckpointTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    private func begin() throws {
        for name in ["a.db", "b.db", "c.db"] { try place.makeStore(name) }
        try place.begin("a.db")
        try #require(try place.invite("a.db", "file").status == 0)
        for name in ["b.db", "c.db"] {
            try #require(try place.join(name, "file", ["--remote", place.remote]).status == 0)
        }
        try place.commit("a.db", "INSERT INTO player VALUES ('1', 'Ann', 1), ('2', 'Ben', 2)")
    }

    private func run(_ names: String...) throws {
        for name in names {
            let outcome = try place.sync("run", name)
            try #require(outcome.status == 0, "\(outcome.errors)")
        }
    }

    @Test("history goes when all devices have it; one that was away rejoins with its work, and a new one begins there")
    func checkpoint() throws {
        try begin()
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
        try #require(try place.join("d.db", "file", ["--remote", place.remote]).status == 0)
        try run("c.db", "a.db", "b.db", "d.db")
        for name in ["b.db", "c.db", "d.db"] { #expect(try place.players(name) == place.players("a.db")) }
        #expect(try place.players("d.db").contains("Cleo"))
    }
}
