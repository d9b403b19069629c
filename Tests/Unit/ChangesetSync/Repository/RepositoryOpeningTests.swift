import CipherDatabase
import Foundation
import KeyCustody
import TestKit
import Testing

@testable import ChangesetSync

/// The calls that a command line and programs make before and after commits: opening, invitations as files, remotes.
@Suite("A repository is opened, invites, and remembers remotes")
struct RepositoryOpeningTests {
    private let folder = TemporaryFolder()

    private func makeRemote() throws -> String {
        let path = folder.path("remote")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path
    }

    @Test("a store without a repository is not given one, and its schema stays")
    func none() throws {
        let pool = try Device.open(folder.path("a.db"))
        let before = try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_schema") }
        #expect(throws: EngineError(.noRepository)) { try ChangesetRepository(existing: pool) }
        #expect(try !ChangesetRepository.isPresent(in: pool))
        #expect(try ChangesetRepository.repositoryID(of: pool) == nil)
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_schema") } == before)
    }

    @Test("a repository that is opened as it is tracks no further table, and commits the tracked ones")
    func existing() throws {
        let device = try Device(folder.path("a.db"))
        #expect(try ChangesetRepository.isPresent(in: device.pool))
        try device.pool.write { try $0.execute(sql: "CREATE TABLE later (id TEXT PRIMARY KEY)") }
        let repository = try ChangesetRepository(existing: device.pool)
        try repository.commit { db in
            try db.execute(sql: "INSERT INTO later VALUES ('x'); INSERT INTO player VALUES (1, 'Ann', 1)")
        }
        #expect(try repository.status().tables == ["player", "team"])
        let changes = try repository.changes(of: #require(repository.status().head))
        #expect(changes.map(\.table) == ["player"])
        // A program that tracks all tables takes it and its rows.
        let all = try ChangesetRepository(device.pool)
        #expect(try all.status().tables == ["later", "player", "team"])
    }

    @Test("commits are found by the first digits of their names")
    func names() throws {
        let device = try Device(folder.path("a.db"))
        let repository = device.repository
        #expect(throws: EngineError(.noSuchCommit)) { try repository.changeset(named: "HEAD") }
        let made = try #require(
            try repository.commitReturningRecord(meta: "{}") { db in
                try db.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)")
            })
        for text in ["HEAD", made.uuid, String(made.uuid.prefix(4)), made.uuid.prefix(20).uppercased()] {
            #expect(try repository.changeset(named: text) == made, "\(text)")
        }
        for text in ["", "abc", made.uuid + "0", "zzzz", "%"] {
            #expect(throws: EngineError(.noSuchCommit)) { try repository.changeset(named: text) }
        }
        #expect(try repository.commitReturningRecord(meta: "{}") { _ in } == nil)
    }

    @Test("names that begin alike are ambiguous")
    func ambiguous() throws {
        let device = try Device(folder.path("a.db"))
        // Of 1,000 names two begin with the same four digits, but for one case in 2,000.
        for number in 0..<1000 { try device.write("INSERT INTO player VALUES (\(number), 'Ann', 1)") }
        let names = try device.repository.log(limit: 1000).map { String($0.uuid.prefix(4)) }
        let twice = try #require(Dictionary(grouping: names) { $0 }.first { $0.value.count > 1 }?.key)
        #expect(throws: EngineError(.ambiguousCommit)) { try device.repository.changeset(named: twice) }
    }

    @Test("a join that is cancelled keeps what it has joined, and the next one continues")
    func cancelledJoin() throws {
        let path = try makeRemote()
        let a = try Device(folder.path("a.db"))
        let remote = FolderStore(path: path, repository: try a.repository.repositoryID())
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sliceRows: 10)
        for part in 0..<4 {
            try a.write(
                """
                WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 30)
                INSERT INTO player SELECT \(part) * 100 + i, 'Ann', i FROM c
                """)
        }
        try a.sync(remote)
        _ = try b.repository.perform(b.repository.makeExchange(remote, named: "remote"), .fetching)
        var checks = 0
        _ = try b.repository.join {
            checks += 1
            return checks > 3
        }
        let some = try b.rows().count
        #expect(checks == 4 && some < 120)
        #expect(try b.repository.join())
        #expect(try b.rows() == a.rows())
    }

    @Test("an invitation is a private file that replaces none; who has it and its key joins at a folder")
    func invitation() throws {
        let path = try makeRemote()
        let a = try Device(folder.path("a.db"))
        let key = KeySource.rawKey([UInt8](repeating: 9, count: 32))
        let invitation = try a.repository.invitation(as: .reader, lockedBy: key)
        let file = folder.path("app.invitation")
        try invitation.write(to: file)
        let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
        #expect(mode == 0o600)
        #expect(throws: MemberError.invitationExists) { try invitation.write(to: file) }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder.path("")).allSatisfy { !$0.contains(".tmp-") })
        let read = try Invitation(contentsOf: file)
        #expect(read.bytes == invitation.bytes)
        let pool = try Device.open(folder.path("b.db"))
        func join(_ key: KeySource) throws -> ChangesetRepository {
            try ChangesetRepository.join(pool, read, unlockedBy: key, folder: path, named: "b")
        }
        // The remote does not have the invitation yet.
        #expect(throws: MemberError.invitationMissing) { try join(key) }
        #expect(throws: MemberError.wrongKeyOfInvitation) { try join(.rawKey([UInt8](repeating: 8, count: 32))) }
        #expect(try !ChangesetRepository.isPresent(in: pool))
        _ = try a.repository.perform(
            a.repository.makeExchange(
                FolderStore(path: path, repository: invitation.repository), named: path), .putting)
        let repository = try join(key)
        let member = try #require(repository.members().first { $0.isThisStore })
        #expect(member.name == "b" && member.role == .reader && !member.isRemoved)
        try a.repository.sync(FolderStore(path: path, repository: invitation.repository), named: path)
        #expect(try a.repository.members().map(\.role) == [.admin])
    }

    @Test("an invitation ends with its time, and members are removed by their names")
    func endsAndRemoval() throws {
        let path = try makeRemote()
        let a = try Device(folder.path("a.db"))
        let key = KeySource.rawKey([UInt8](repeating: 9, count: 32))
        let remote = FolderStore(path: path, repository: try a.repository.repositoryID())
        let late = try a.repository.invitation(for: .zero, lockedBy: key)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        let pool = try Device.open(folder.path("c.db"))
        let end = Date(timeIntervalSinceNow: 0.01)
        #expect(waitUntil { Date() > end })
        #expect(throws: MemberError.invitationExpired) {
            try ChangesetRepository.join(pool, late, unlockedBy: key, folder: path)
        }
        try b.sync(remote)
        try a.sync(remote)
        let member = try #require(a.repository.members().first { !$0.isThisStore })
        #expect(throws: MemberError.notAMember) { try a.repository.removeMember("none") }
        try a.repository.removeMember(member.id)
        #expect(try a.repository.members().first { $0.id == member.id }?.isRemoved == true)
        #expect(throws: MemberError.notAMember) { try a.repository.removeMember(member.id) }
        let own = try a.repository.status().replica
        #expect(throws: MemberError.lastAdmin) { try a.repository.removeMember(own) }
    }

    /// The commit that removes was made before the rights were looked at: it cut the store off from the admin's rows.
    @Test("a writer that tries to remove an admin changes nothing")
    func refusedRemoval() throws {
        let (a, b, remote) = try pair()
        let admin = try a.repository.status().replica
        #expect(throws: MemberError.notAdmin) { try b.repository.removeMember(admin) }
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
        for device in [a, b, a] { try device.sync(remote) }
        #expect(try b.rows() == ["player 1 Ann 1"])
        #expect(try b.repository.verify().digest == a.repository.verify().digest)
    }

    @Test("a commit by which a writer removes an admin is refused by every other member")
    func forgedRemoval() throws {
        let (a, b, remote) = try pair()
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try c.sync(remote)
        let admin = try #require(ReplicaID(a.repository.status().replica))
        _ = try b.pool.writeWithoutTransaction { db in
            try b.repository.replica.commitEvents(db, clock: b.repository.clock(), [.remove(admin)])
        }
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
        for _ in 0..<2 { for device in [b, a, c] { try device.sync(remote) } }
        #expect(try c.rows() == ["player 1 Ann 1"] && a.rows() == c.rows())
        let liar = try b.repository.status().replica
        for device in [a, c] {
            let obstacles = try device.repository.status().obstacles
            #expect(obstacles == [.refusedCommit(CommitPlace(author: liar, number: 1))])
        }
        // The removal of the liar ends that.
        try a.repository.removeMember(liar)
        for device in [a, c] { try device.sync(remote) }
        for device in [a, c] { #expect(try device.repository.status().isSettled) }
    }

    private func pair() throws -> (Device, Device, MemoryRemote) {
        let (a, remote) = (try Device(folder.path("a.db")), MemoryRemote())
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        for device in [b, a] { try device.sync(remote) }
        return (a, b, remote)
    }

    /// A column that was added made counters ordinary columns on that device: sums were lost, and devices differed.
    @Test("the rules of a table stay when a column is added, and when another device tracks the table later")
    func rulesStay() throws {
        let path = try makeRemote()
        let a = try Device(folder.path("a.db"))
        let remote = FolderStore(path: path, repository: try a.repository.repositoryID())
        try a.repository.setRules(of: "player", counters: ["score"], deletionsWin: true)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        let b = try Device(
            folder.path("b.db"), invitedBy: a, at: remote, sql: "CREATE TABLE IF NOT EXISTS x (i INTEGER PRIMARY KEY)")
        try b.sync(remote)
        try b.pool.write { try $0.execute(sql: Device.sql) }
        for device in [a, b] {
            try device.pool.write { try $0.execute(sql: "ALTER TABLE player ADD COLUMN note TEXT") }
        }
        try b.sync(remote)
        #expect(try b.rows() == ["player 1 Ann 10 NULL"])
        try a.write("UPDATE player SET score = score + 1")
        try b.write("UPDATE player SET score = score + 2")
        for device in [a, b, a, b] { try device.sync(remote) }
        #expect(try a.rows() == ["player 1 Ann 13 NULL"])
        #expect(try b.rows() == a.rows())
        try a.write("DELETE FROM player")
        try b.write("UPDATE player SET name = 'Anna'")
        for device in [a, b, a, b] { try device.sync(remote) }
        #expect(try a.rows().isEmpty && b.rows().isEmpty)
    }

    /// The next update of a row made it the sum of its steps: 11 became 1.
    @Test("a column that becomes a counter keeps the values of its rows")
    func laterCounter() throws {
        let path = try makeRemote()
        let a = try Device(folder.path("a.db"))
        let remote = FolderStore(path: path, repository: try a.repository.repositoryID())
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10), (2, 'Ben', NULL), (3, 'Cat', 0), (4, 'Dan', -4)")
        for device in [a, b] { try device.sync(remote) }
        try b.write("UPDATE player SET score = 20 WHERE id = 1")
        for device in [b, a] { try device.sync(remote) }
        try a.repository.setRules(of: "player", counters: ["score"])
        for device in [a, b] { try device.sync(remote) }
        #expect(try b.rows() == a.rows())
        try a.write("UPDATE player SET score = score + 1 WHERE id IN (1, 4)")
        try b.write("UPDATE player SET score = score + 2 WHERE id = 1; UPDATE player SET score = 5 WHERE id = 2")
        for device in [a, b, a, b] { try device.sync(remote) }
        #expect(try a.rows() == ["player 1 Ann 23", "player 2 Ben 5", "player 3 Cat 0", "player 4 Dan -3"])
        #expect(try b.rows() == a.rows())
        #expect(try a.repository.verify() == b.repository.verify())
        // A rule that is set again adds nothing.
        try a.repository.setRules(of: "player", counters: ["score"], deletionsWin: true)
        try a.write("UPDATE player SET score = score + 1 WHERE id = 1")
        for device in [a, b] { try device.sync(remote) }
        #expect(try b.texts("SELECT score FROM player WHERE id = 1") == ["24"])
    }

    /// The rows stayed hidden for ever, although the table was there.
    @Test("a table that was gone and is there again shows its rows")
    func tableIsBack() throws {
        let path = try makeRemote()
        let a = try Device(folder.path("a.db"))
        let remote = FolderStore(path: path, repository: try a.repository.repositoryID())
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try b.pool.write { try $0.execute(sql: "ALTER TABLE player RENAME TO away") }
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        try a.sync(remote)
        let other = try ChangesetRepository(existing: b.pool)
        try other.sync(remote, named: "remote")
        try b.pool.write { try $0.execute(sql: "ALTER TABLE away RENAME TO player") }
        try ChangesetRepository(existing: b.pool).join()
        #expect(try b.rows() == a.rows())
        #expect(try other.status().obstacles.isEmpty)
    }

    @Test("a pull says that it has joined something, also in one transaction")
    func joinSaysSo() throws {
        let path = try makeRemote()
        let a = try Device(folder.path("a.db"))
        let remote = FolderStore(path: path, repository: try a.repository.repositoryID())
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        try a.sync(remote)
        #expect(try b.repository.sync(remote, named: "remote").hasJoined)
        #expect(try !b.repository.sync(remote, named: "remote").hasJoined)
    }

    @Test("a remote is remembered before its first exchange, and forgotten")
    func remotes() throws {
        let device = try Device(folder.path("a.db"))
        try device.repository.remember(remote: "/mnt/share")
        try device.repository.remember(remote: "/mnt/share")
        #expect(try device.repository.remoteNames() == ["/mnt/share"])
        let status = try device.repository.status()
        #expect(status.remotes.map(\.lastExchange) == [Date(timeIntervalSince1970: 0)])
        #expect(try device.repository.forget(remote: "/mnt/share"))
        #expect(try !device.repository.forget(remote: "/mnt/share"))
    }

    /// It said that the table has no primary key.
    @Test("a table that does not exist, and one without a primary key, are told apart")
    func noSuchTable() throws {
        let sql = "CREATE TABLE t (v); CREATE VIEW w AS SELECT 1 AS id"
        let pool = try Device.open(folder.path("t.db"), sql)
        for (name, code) in [("nosuch", "noSuchTable"), ("t", "unsuitableTable"), ("w", "unsuitableTable")] {
            let error = #expect(throws: EngineError.self) {
                try ChangesetRepository(pool, tracking: .only([name]))
            }
            #expect(error?.code.rawValue == code && error?.detail == name)
        }
    }
}
