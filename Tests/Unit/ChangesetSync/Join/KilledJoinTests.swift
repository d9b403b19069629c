import CipherDatabase
import TestKit
import Testing

@testable import ChangesetSync

/// A store that was killed again and again began a long join anew each time, and never came to its end.
@Suite("A long join is killed again and again")
struct KilledJoinTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private static let rows = 1_000
    private static let sliceRows = 25

    /// Two devices; what the first one has is at the remote: as a commit, or as a snapshot.
    private func devices(isSnapshot: Bool) throws -> (Device, Device) {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sliceRows: Self.sliceRows)
        try b.write("INSERT INTO player VALUES (500001, 'of b', 1)")
        for device in [a, b, a] { try device.sync(remote) }
        try a.write(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
            INSERT INTO player SELECT i * 1000, 'row ' || i, i FROM n
            """)
        try a.write("DELETE FROM player WHERE id = 500001; INSERT INTO team VALUES ('x', 'Oslo')")
        try a.sync(remote)
        if isSnapshot { #expect(try a.repository.compact(remote, named: "remote").sentSnapshots == 1) }
        _ = try b.repository.perform(b.repository.makeExchange(remote, named: "remote"), .fetching)
        return (a, b)
    }

    @Test(
        "it goes on from the slice where it was, and the rows are those of the others",
        arguments: [false, true])
    func goesOn(_ isSnapshot: Bool) throws {
        let (a, b) = try devices(isSnapshot: isSnapshot)
        try b.close()
        var lives = 0
        var hasMore = true
        // A life has a quarter of the slices, and writes rows before, among and after those that are joined.
        while hasMore, lives < 12 {
            lives += 1
            let b = try Device(folder.path("b.db"), sliceRows: Self.sliceRows)
            try b.write("INSERT INTO player VALUES (\(lives * 80_000 + 7), 'written', 0)")
            for _ in 0..<(Self.rows / Self.sliceRows / 4) where hasMore {
                hasMore = try b.pool.writeWithoutTransaction { db in
                    try b.repository.replica.pull(db, clock: b.repository.clock()).hasMore
                }
            }
            try b.close()
        }
        #expect(lives < 12)
        let last = try Device(folder.path("b.db"), sliceRows: Self.sliceRows)
        for _ in 0..<3 { for device in [last, a] { try device.sync(remote) } }
        #expect(try last.rows() == a.rows() && a.rows().count == Self.rows + 1 + lives)
        #expect(try last.repository.verify() == a.repository.verify())
        #expect(try last.repository.verify().differences.isEmpty && last.count("part") == 0)
    }

    /// A long commit was fetched whole again after each failure.
    @Test("the parts of a long commit that were received are not received again, and are removed when all are here")
    func partsOfCommit() throws {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        for device in [a, b, a] { try device.sync(remote) }
        let former = Set(remote.names("c/"))
        try a.write(
            "INSERT INTO player (name, score) VALUES ('1', randomblob(5000000)), ('2', randomblob(5000000))")
        try a.sync(remote)
        let parts = remote.names("c/").filter { !former.contains($0) }.count
        #expect(parts >= 3)
        for number in 1..<parts {
            // A process is killed after one part.
            _ = try? b.sync(FailingRemote(remote, afterGets: 1))
            #expect(try b.count("segment_part") == number)
        }
        remote.calls["get"] = 0
        try b.sync(remote)
        #expect(remote.calls["get"] == 1)
        #expect(try b.count("segment_part") == 0 && a.repository.verify() == b.repository.verify())
        // Parts of a segment that the remote has no longer go too.
        try a.write("UPDATE player SET score = randomblob(5000000)")
        try a.sync(remote)
        _ = try? b.sync(FailingRemote(remote, afterGets: 1))
        #expect(try b.count("segment_part") == 1)
        for name in remote.names("c/") { remote.objects[name] = nil }
        try b.sync(remote)
        #expect(try b.count("segment_part") == 0)
    }

    @Test("the parts of a snapshot that were received are not received again")
    func parts() throws {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        for _ in 0..<4 {
            try a.write("INSERT INTO player (name, score) VALUES ('blob', randomblob(3000000))")
        }
        #expect(try a.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let parts = remote.names("p/").count
        #expect(parts >= 3)
        for _ in 0..<parts - 1 {
            remote.calls["get"] = 0
            // The manifest is got once, and one part in each exchange.
            _ = try? b.sync(FailingRemote(remote, afterGets: remote.names("s/").count + 1))
        }
        remote.calls["get"] = 0
        try b.sync(remote)
        // One of the calls before was for another object.
        #expect((remote.calls["get"] ?? 0) <= remote.names("s/").count + 2)
        #expect(
            try b.texts("SELECT id, name, length(score) FROM player")
                == a.texts("SELECT id, name, length(score) FROM player"))
        #expect(try a.repository.verify() == b.repository.verify())
    }
}
