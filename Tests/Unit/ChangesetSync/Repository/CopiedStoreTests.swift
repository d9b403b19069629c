import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// Stores whose files were copied: two devices make commits under one name.
@Suite("Copied stores sync")
struct CopiedStoreTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    /// A copy of the files of a store that is closed.
    private func copy(_ name: String, to other: String) throws -> Device {
        for file in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) where file.hasPrefix(name) {
            try FileManager.default.copyItem(
                atPath: folder.path(file), toPath: folder.path(other + file.dropFirst(name.count)))
        }
        return try Device(folder.path(other))
    }

    /// Schedules 120 and 145: a snapshot had a later commit of the same author, and was taken for one that has all commits
    /// with lower numbers. The commit of the copy was never sent.
    @Test("a snapshot with a later commit of the copy stands for no commit of the other branch")
    func snapshot() throws {
        let a = try Device(folder.path("a.db"))
        var b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try b.write("INSERT INTO player VALUES (1, 'before', 1)")
        for device in [a, b, a] { try device.sync(remote) }
        try b.close()
        let c = try copy("b.db", to: "c.db")
        b = try Device(folder.path("b.db"))
        try b.write("INSERT INTO player VALUES (2, 'of b', 2)")
        for number in 3...4 { try c.write("INSERT INTO player VALUES (\(number), 'of c', \(number))") }
        for device in [c, a] { try device.sync(remote) }
        #expect(try a.repository.compact(remote, named: "remote").deletedObjects > 0)
        for _ in 0..<3 { for device in [b, a, c] { try device.sync(remote) } }
        #expect(try a.rows().count == 4 && b.rows() == a.rows() && c.rows() == a.rows())
        #expect(try a.vector() == b.vector() && c.vector() == b.vector())
    }
}
