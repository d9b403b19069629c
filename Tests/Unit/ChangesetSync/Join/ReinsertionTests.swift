import CipherDatabase
import TestKit
import Testing

@testable import ChangesetSync

/// Each deletion read all former ones of its key: 4,000 took sixteen times as long as 1,000, and a snapshot had all of them.
@Suite("A key is deleted and inserted again and again")
struct ReinsertionTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    private func settle(_ devices: [Device]) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    @Test("few of its deaths are known, and no update is lost", arguments: [1, 2])
    func bounded(_ writers: Int) throws {
        let a = try Device(folder.path("a.db"))
        try a.write("INSERT INTO player VALUES (1, 'first', 0)")
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try settle([a, b, c])
        try c.write("UPDATE player SET score = 77 WHERE id = 1")
        for number in 0..<40 {
            let device = [a, b][number % writers]
            try device.write("DELETE FROM player WHERE id = 1")
            try device.write("INSERT INTO player VALUES (1, 'again', \(number))")
            if writers > 1 { for device in [a, b, a] { try device.sync(remote) } }
        }
        try a.write("DELETE FROM player WHERE id = 1")
        try settle([a, b])
        for device in [a, b] {
            #expect(
                try device.count("dead") <= KeyState.mostDead && device.count("grave") <= KeyState.mostDead)
            #expect(try device.rows().isEmpty && device.repository.verify().differences.isEmpty)
        }
        #expect(try a.repository.verify() == b.repository.verify())

        // The update is of the first insertion, whose death no device knows.
        try settle([c, a, b])
        for device in [a, b, c] { #expect(try device.rows() == ["player 1 first 77"]) }
        #expect(try a.repository.verify() == c.repository.verify())
        #expect(try a.repository.verify() == b.repository.verify())
    }

    @Test("a store that joins by a snapshot has the rows, and learns of a late update")
    func snapshot() throws {
        let a = try Device(folder.path("a.db"))
        try a.write("INSERT INTO player VALUES (1, 'first', 0), (2, 'other', 0)")
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try settle([a, b])
        try b.write("UPDATE player SET score = 77 WHERE id = 1")
        for number in 0..<40 {
            try a.write("DELETE FROM player WHERE id = 1")
            try a.write("INSERT INTO player VALUES (1, 'again', \(number))")
        }
        #expect(try a.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try c.sync(remote)
        #expect(try c.count("dead") <= KeyState.mostDead && c.rows() == a.rows())
        try settle([b, a, c])
        for device in [a, b, c] { #expect(try device.rows() == a.rows() && device.rows().count == 2) }
        #expect(try a.repository.verify() == b.repository.verify())
        #expect(try a.repository.verify() == c.repository.verify())
    }
}
