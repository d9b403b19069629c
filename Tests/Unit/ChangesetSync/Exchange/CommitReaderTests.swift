import Foundation
import KeyCustody
import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

/// `Keys/generators/read_commits.py`, written from the documents alone, lists what stores have put into a folder.
@Suite("A reader of a folder by another implementation")
struct CommitReaderTests {
    private static let python = ["/usr/bin/python3", "/usr/local/bin/python3", "/opt/homebrew/bin/python3"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }

    static let isPossible = (try? run(["-c", "import cryptography"]).status) == 0

    private static func run(_ arguments: [String]) throws -> (status: Int32, output: String, errors: String) {
        let process = Process()
        process.executableURL = URL(filePath: try #require(python))
        process.arguments = arguments
        let (output, errors) = (Pipe(), Pipe())
        (process.standardOutput, process.standardError) = (output, errors)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let problems = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, text, problems)
    }

    private let folder = TemporaryFolder()

    /// Runs the reader with an invitation of an admin. Returns its JSON lines.
    private func read(_ store: TestStore, status: Int32 = 0) throws -> [[String: Any]] {
        let (record, key) = try store.list.invite(as: .reader, until: .max, by: store.keys, time: store.now)
        let content = InvitationContent(
            repository: store.repository, record: record.hash, key: key, rosterSecret: store.rosterSecret,
            epochs: store.secrets, address: "folder")
        return try read(content, status: status)
    }

    private func read(
        _ content: InvitationContent, _ options: [String] = [], status: Int32 = 0
    ) throws -> [[String: Any]] {
        let raw = [UInt8](repeating: 0x2a, count: 32)
        let invitation = try Invitation(content, lockedBy: .rawKey(try RawKey(bytes: raw)))
        try Data(invitation.bytes).write(to: folder.url.appending(path: "invitation"))
        try Data(raw).write(to: folder.url.appending(path: "key"))
        let script = (0..<5).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
            .appending(path: "Keys/generators/read_commits.py").path
        let outcome = try Self.run(
            [
                "-B", script, folder.path("remote"), folder.path("invitation"), "--raw-key-file", folder.path("key"),
            ] + options)
        #expect(outcome.status == status, "\(outcome.errors)")
        return try outcome.output.split(separator: "\n").map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
    }

    @Test(
        "it lists the commits, members and epochs of a remote with a removed member and a snapshot",
        .enabled(if: CommitReaderTests.isPossible))
    func wholeRemote() throws {
        try FileManager.default.createDirectory(
            at: folder.url.appending(path: "remote"), withIntermediateDirectories: true)
        let a = try TestStore.founder()
        let remote = FolderStore(path: folder.path("remote"), repository: a.repository)
        let (b, gone) = (try a.admit(named: "b"), try a.admit(named: "gone"))
        for (index, value) in [CellValue.null, .integer(-70_000), .real(0.5), .string("Zoë"), .blob([0, 255])]
            .enumerated()
        {
            try a.commit(value, key: Int64(index))
        }
        try a.sync(remote)
        try gone.commit(key: 77)
        try gone.sync(remote)
        try a.sync(remote)
        try a.remove(gone.keys.id)
        try a.commit(.blob(Array(repeating: 3, count: ExchangeLimits.segmentBytes)[...]), key: 9)
        try a.sync(remote)
        try b.sync(remote)
        try b.commit(key: 10)
        try b.sync(remote)
        try a.sync(remote)
        let found = try read(a)
        let hashes = found.compactMap { $0["hash"] as? String }
        #expect(Set(hashes) == Set(a.hashes.map(\.description)) && hashes.count == 8)
        #expect(Set(found.compactMap { $0["name"] as? String }) == ["founder", "b", "gone"])
        #expect(found.filter { $0["isReadable"] as? Bool == true }.count == a.list.epochs.count)
        let values = found.filter { $0["author"] as? String == a.keys.id.description }
            .compactMap { ($0["writes"] as? [[String: Any]])?.first?["cells"] as? [String: Any] }
        #expect(values.count == 6 && values[3]["name"] as? String == "Zoë" && values[1]["name"] as? Int == -70_000)
        #expect(values[2]["name"] as? Double == 0.5 && (values[4]["name"] as? [String: String])?["blob"] == "00ff")
        _ = try Exchange(a, with: remote, named: "remote").compact(now: 1)
        let after = try read(a)
        #expect(after.contains { $0["isWhole"] as? Bool == true } && !after.contains { $0["hash"] != nil })
    }

    /// The rows of the program and of the base, as the reader prints them.
    private func rows(_ device: Device) throws -> (shown: [String], base: Int) {
        var shown: [String] = []
        for table in ["player", "team"] {
            let key = table == "player" ? "id" : "code"
            let columns = try device.pool.read { db in
                try String.fetchAll(
                    db, sql: "SELECT name FROM pragma_table_info(?) WHERE pk = 0 ORDER BY name", arguments: [table])
            }
            let cells = columns.map { "'\($0)', \($0)" }.joined(separator: ", ")
            shown += try device.texts(
                "SELECT '\(table) ' || json_array(\(key)) || ' ' || json_object(\(cells)) FROM \(table) ORDER BY \(key)"
            )
        }
        let living = try device.pool.writeWithoutTransaction { db in
            try device.repository.replica.inspect(db, clock: device.repository.clock()) { try $0.rows().living.count }
        }
        return (shown, living)
    }

    private static func text(_ value: Any?) throws -> String {
        let data = try JSONSerialization.data(
            withJSONObject: value ?? NSNull(), options: [.sortedKeys, .fragmentsAllowed, .withoutEscapingSlashes])
        return String(decoding: data, as: UTF8.self)
    }

    @Test(
        "it joins the commits of a remote with members, epochs, counters and a snapshot, and has the rows of the stores",
        .enabled(if: CommitReaderTests.isPossible), arguments: 0..<4)
    func joinedRows(_ index: Int) throws {
        try FileManager.default.createDirectory(
            at: folder.url.appending(path: "remote"), withIntermediateDirectories: true)
        let a = try Device(folder.path("a.db"))
        let remote = FolderStore(path: folder.path("remote"), repository: try a.repository.store().repository)
        let (b, c) = (
            try Device(folder.path("b.db"), invitedBy: a, at: remote),
            try Device(folder.path("c.db"), invitedBy: a, at: remote)
        )
        let seed = Seed()
        var numbers = seed.numbers(index)
        var devices = [a, b, c]
        for step in 0..<40 {
            guard let device = devices.randomElement(using: &numbers) else { continue }
            let id = Int.random(in: 1...6, using: &numbers)
            switch Int.random(in: 0..<8, using: &numbers) {
            case 0, 1: try device.write("INSERT OR REPLACE INTO player VALUES (\(id), 'n\(step)', \(step))")
            case 2: try device.write("UPDATE player SET name = 'u\(step)' WHERE id > \(id)")
            case 3: try device.write("UPDATE player SET score = coalesce(score, 0) + \(step) WHERE id = \(id)")
            case 4: try device.write("DELETE FROM player WHERE id = \(id)")
            case 5: try device.write("INSERT OR REPLACE INTO team VALUES ('t\(id)', NULL)")
            default: try device.sync(remote)
            }
            if step == 12 { try device.repository.setRules(of: "player", counters: ["score"]) }
            if step == 20, index > 0 { try a.repository.compact(remote, named: "remote") }
            if step == 30 {
                for device in [c, a, b] { try device.sync(remote) }
                try c.write("UPDATE player SET name = 'of the removed member' WHERE id = \(id)")
                try c.sync(remote)
                if index > 1 { try b.sync(remote) }
                let member = try #require(c.repository.members().first { $0.isThisStore })
                try a.repository.removeMember(member.id)
                devices = [a, b]
            }
        }
        // An exchange begins the epoch that a removal needs. An invitation opens the epochs that were there before it.
        try a.sync(remote)
        let invitation = try a.repository.invite(as: .reader, until: .max)
        for _ in 0..<3 { for device in [a, b] { try device.sync(remote) } }
        let (shown, living) = try rows(a)
        let found = try read(invitation, ["--rows"]).filter { $0["living"] != nil }
        let lines = try found.filter { !($0["shown"] is NSNull) }.map {
            "\($0["table"] ?? "") \(try Self.text($0["key"])) \(try Self.text($0["shown"]))"
        }
        #expect(lines.sorted() == shown.sorted(), "\(seed)")
        #expect(found.reduce(0) { $0 + (($1["living"] as? [Any])?.count ?? 0) } == living, "\(seed)")
        #expect(try b.rows() == a.rows(), "\(seed)")
    }

    @Test("it reads the rows of a snapshot", .enabled(if: CommitReaderTests.isPossible))
    func snapshotRows() throws {
        try FileManager.default.createDirectory(
            at: folder.url.appending(path: "remote"), withIntermediateDirectories: true)
        let device = try Device(folder.path("a.db"))
        let remote = FolderStore(path: folder.path("remote"), repository: try device.repository.store().repository)
        let other = try Device(folder.path("b.db"), invitedBy: device, at: remote)
        try device.write(
            "INSERT INTO player VALUES (-1, 'Zoë', 1), (2, NULL, 2); INSERT INTO team VALUES ('x', 'Oslo')")
        try device.sync(remote)
        try other.sync(remote)
        try other.write("UPDATE player SET score = 3 WHERE id = 2; DELETE FROM team")
        try other.sync(remote)
        try device.sync(remote)
        #expect(try device.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let invitation = try device.repository.invite(as: .reader, until: .max)
        try device.sync(remote)
        let keys = try read(invitation, ["--rows"]).filter { $0["living"] != nil }
        let living = keys.compactMap { ($0["living"] as? [[String: Any]])?.first?["cells"] as? [String: Any] }
        #expect(keys.map { "\($0["table"] ?? "")" } == ["player", "player", "team"])
        #expect(living.count == 2 && living[0]["name"] as? String == "Zoë" && living[1]["score"] as? Int == 3)
        #expect((keys[2]["living"] as? [Any])?.isEmpty == true && (keys[2]["dead"] as? [Any])?.count == 1)
    }

    @Test(
        "it reads random commits as they were made, and refuses damaged objects",
        .enabled(if: CommitReaderTests.isPossible))
    func randomCommits() throws {
        try FileManager.default.createDirectory(
            at: folder.url.appending(path: "remote"), withIntermediateDirectories: true)
        let a = try TestStore.founder()
        let remote = FolderStore(path: folder.path("remote"), repository: a.repository)
        let seed = Seed()
        var previous = CommitHash.zero
        var commits: [EncodedCommit] = []
        for index in 0..<200 {
            var random = RandomCommit(seed.numbers(index))
            let made = try random.commit()
            let writes = try Writes(Array(made.writes), author: a.keys.id)
            let commit = Commit(
                author: a.keys.id, number: UInt64(index) + 1, previous: previous, time: made.time,
                context: made.context, beginsBranch: made.beginsBranch, meta: made.meta, events: made.events,
                writes: writes)
            commits.append(try EncodedCommit(commit, in: a.repository))
            previous = commits[index].hash
        }
        try a.addToInbox(commits.map { VerifiedCommit($0, signature: nil) })
        #expect(try a.sync(remote).sentCommits == 200)
        let found = try read(a).filter { $0["hash"] != nil }
        #expect(found.compactMap { $0["hash"] as? String } == commits.map(\.hash.description), "\(seed)")
        for (line, commit) in zip(found, commits) {
            let writes = try #require(line["writes"] as? [[String: Any]])
            #expect(
                writes.count == commit.commit.writes.count && line["time"] as? UInt64 == commit.commit.time.rawValue)
            let keys = commit.commit.writes.map { $0.incarnation == nil }
            #expect(writes.map { $0["incarnation"] == nil } == keys, "\(seed)")
        }
        let name = try #require(remote.list("c/").first?.name)
        let file = folder.url.appending(path: "remote/\(a.repository)/\(name)")
        var bytes = try Data(contentsOf: file)
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: file)
        #expect(try read(a, status: 1).allSatisfy { $0["hash"] == nil })
    }
}
