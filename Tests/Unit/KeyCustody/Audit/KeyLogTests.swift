import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import Testing

@testable import KeyCustody

@Suite("Key log")
struct KeyLogTests {
    let folder: TemporaryFolder
    let log: KeyLog

    init() throws {
        folder = try TemporaryFolder()
        log = KeyLog(databasePath: folder.file("app.db"))
    }

    private static let events: [KeyEvent] = [
        .storeCreated(scheme: "slots"), .slotAdded(id: 1, kind: .passphrase), .slotAdded(id: 2, kind: .keyFile),
        .recoveryKeyMade, .slotChanged(id: 1, kind: .command), .slotRemoved(id: 1), .slotLabelled(id: 2),
        .schemeChanged(to: "direct"), .keyRevealed, .rotationBegun(from: 1, to: 2, mode: "compromised"),
        .rotationAbandoned(from: 1),
        .rotationCompleted(to: 2), .rotationRecovered(to: 3, forward: true), .backupMade, .backupVerified, .restored(),
    ]

    private func record(_ events: [KeyEvent] = events) throws { for event in events { try log.record(event) } }

    private func lines() throws -> [String] {
        try String(contentsOfFile: log.path, encoding: .utf8).split(separator: "\n").map(String.init)
    }

    private func write(_ text: String) throws { try Data(text.utf8).write(to: URL(filePath: log.path)) }

    private func write(_ lines: [String]) throws { try write(lines.map { $0 + "\n" }.joined()) }

    @Test("events are read as they were written, in one unbroken chain")
    func chain() throws {
        #expect(try log.verify() == KeyLogAudit())
        try record()
        let audit = try log.verify()
        #expect(audit.problems.isEmpty && audit.notes.isEmpty)
        #expect(audit.entries.map(\.event) == Self.events.map(\.name))
        #expect(audit.entries.map(\.details) == Self.events.map(\.details))
        #expect(audit.entries.map(\.number) == Array(1...16))
        #expect(audit.entries.allSatisfy { $0.process == ProcessInfo.processInfo.processIdentifier })
        #expect(audit.entries.allSatisfy { $0.user == getuid() && $0.time > 1_700_000_000 })
        #expect(audit.lastTime(of: .backupVerified) != nil && audit.lastTime(of: .logDamaged(bytes: 1)) == nil)
        #expect(try lines().map(\.utf8.count).max() ?? .max < 400)
    }

    @Test("a line that was changed, removed, moved, repeated or inserted is found with its number")
    func tampering() throws {
        try record()
        let sound = try lines()
        func problems(_ changed: [String]) throws -> [Int] {
            try write(changed)
            return try log.verify().problems.map(\.line)
        }
        #expect(try problems(sound) == [])
        for (index, line) in sound.enumerated() {
            // A changed value, also where it is the last line and no other line has its hash.
            let number = index + 1
            for (old, new) in [("\"user\":", "\"user\":1"), ("event\":\"", "event\":\"x"), ("time\":1", "time\":2")] {
                var changed = sound
                changed[index] = line.replacing(old, with: new)
                #expect(changed != sound)
                #expect(try problems(changed) == [number])
            }
            var repeated = sound
            repeated.insert(line, at: index)
            #expect(try problems(repeated) == [number + 1])
            guard index < sound.count - 1 else { continue }
            var removed = sound
            removed.remove(at: index)
            #expect(try problems(removed) == [index == 0 ? 1 : number])
            var moved = sound
            moved.swapAt(index, index + 1)
            #expect(try problems(moved).first == number)
        }
        // The end cannot be missed by the chain alone.
        #expect(try problems(sound.dropLast(3)) == [])
    }

    @Test("a line whose own hash was made to fit is found by the line behind it")
    func exchange() throws {
        try record()
        var changed = try lines()
        let original = try #require(try KeyLogEntry(reading: Array(changed[4].utf8)))
        let forged = try KeyLogEntry(.slotLabelled(id: 9), number: 5, after: original.previous)
        changed[4] = forged.line
        try write(changed)
        #expect(try log.verify().problems.map(\.line) == [6])
    }

    @Test("a line that a power cut left unfinished is noted, and the chain goes on", arguments: [1, 17, 100, 400])
    func torn(cut: Int) throws {
        try record()
        let whole = try String(contentsOfFile: log.path, encoding: .utf8)
        let last = try #require(try lines().last)
        try write(String(whole.dropLast(min(cut, last.count))))
        let before = try log.verify()
        // A line that lacks nothing but its end is a line.
        #expect(before.problems.isEmpty && before.entries.count == (cut == 1 ? 16 : 15))
        #expect(before.notes.count == 1)
        try log.record(.backupMade)
        let after = try log.verify()
        #expect(after.problems.isEmpty, "\(after.problems)")
        #expect(after.entries.last?.event == "backup-made")
        #expect(after.entries.map(\.number) == Array(1...UInt64(after.entries.count)))
        #expect(after.entries.contains { $0.event == "log-damaged" } == (cut > 1))
    }

    @Test("zeros that a power cut left, and other nonsense, do not stop the log")
    func nonsense() throws {
        try Data(repeating: 0, count: 5000).write(to: URL(filePath: log.path))
        try log.record(.backupMade)
        var audit = try log.verify()
        #expect(audit.entries.map(\.event) == ["log-damaged", "backup-made"])
        #expect(audit.problems.isEmpty && audit.notes.count == 1)
        try write(try lines().suffix(2) + ["nonsense", "more"])
        try log.record(.backupVerified)
        audit = try log.verify()
        #expect(audit.entries.map(\.event) == ["log-damaged", "backup-made", "log-damaged", "backup-verified"])
        #expect(audit.problems.map(\.line) == [3, 4])
    }

    @Test("a full log goes on in a new file, and the chain spans both")
    func full() throws {
        try record()
        let filling = try #require(try lines().last).utf8.count + 1
        // Filled with lines of one length, without an fsync for each.
        let entry = try #require(try log.verify().entries.last)
        var (text, number, hash) = (try String(contentsOfFile: log.path, encoding: .utf8), entry.number, entry.hash)
        while text.utf8.count + 2 * filling < CustodyLimits.keyLogBytes {
            number += 1
            let next = try KeyLogEntry(.restored(), number: number, after: hash)
            hash = next.hash
            text += next.line + "\n"
        }
        try write(text)
        try record([.keyRevealed, .backupMade, .keyRevealed])
        #expect(try folder.names() == ["app.db-keylog", "app.db-keylog.1", "app.db-lock"])
        #expect(try #require(try Files.byteCount(log.formerPath)) <= CustodyLimits.keyLogBytes)
        #expect(try #require(try Files.byteCount(log.path)) < 2000)
        var audit = try log.verify()
        #expect(audit.problems.isEmpty && audit.notes.isEmpty)
        #expect(audit.entries.last?.number == number + 3)
        // The next time the oldest lines go, and the log says so.
        try Files.remove(log.formerPath)
        #expect(try log.verify().problems.map(\.line) == [1])
        try FileManager.default.moveItem(atPath: log.path, toPath: log.formerPath)
        try log.record(.restored())
        audit = try log.verify()
        #expect(audit.problems.isEmpty && audit.notes.count == 1 && audit.entries.last?.number == number + 4)
    }

    // A log that somebody had changed needed attention for ever: nobody could say that it had been looked into.
    @Test("an acknowledgement covers what was wrong with the log, and no later change of it")
    func acknowledgement() throws {
        try record()
        #expect(try log.acknowledge(epoch: 3) == nil)
        let sound = try lines()
        try write(Array(sound[..<3] + sound[4...]))
        let found = try log.verify().problems
        #expect(found.count == 1)
        #expect(try log.acknowledge(epoch: 3) == 1)
        try record([.backupMade])
        let audit = try log.verify()
        #expect(audit.problems.isEmpty && audit.acknowledged == found)
        #expect(audit.entries.suffix(2).map(\.event) == ["log-acknowledged", "backup-made"])
        // A change behind it, in what it covers, of itself, or without it.
        let acknowledged = try lines()
        let shorter = Array(acknowledged[..<5] + acknowledged[6...])
        let changes: [[String]] = [
            acknowledged.map { $0.replacing("backup-made", with: "backed-up") }, shorter,
            Array(acknowledged.dropLast(2) + acknowledged.suffix(1)),
            acknowledged.map { $0.replacing("\"problems\":1", with: "\"problems\":2") },
        ]
        for changed in changes {
            try write(changed)
            #expect(try !log.verify().problems.isEmpty)
        }
        try write(shorter)
        #expect(try log.acknowledge(epoch: 3) == 2)
        #expect(try log.verify().problems.isEmpty)
    }

    @Test("a log that was removed can be acknowledged, up to the epoch of that time")
    func acknowledgedLoss() throws {
        #expect(try log.acknowledge(epoch: 4) == 0)
        let audit = try log.verify()
        #expect(audit.entries.map(\.event) == ["log-acknowledged"] && audit.problems.isEmpty)
        #expect(audit.note(onEpoch: 4) == nil && audit.note(onEpoch: 5) != nil)
        try record([.rotationCompleted(to: 5)])
        #expect(try log.verify().note(onEpoch: 5) == nil)
        #expect(try log.acknowledge(epoch: 5) == nil)
    }

    @Test("an acknowledgement holds on when the log is full and goes on in a new file")
    func acknowledgementInFullLog() throws {
        try record()
        let sound = try lines()
        try write(Array(sound[..<3] + sound[4...]))
        #expect(try log.acknowledge(epoch: 3) == 1)
        try FileManager.default.moveItem(atPath: log.path, toPath: log.formerPath)
        try record()
        #expect(try log.verify().problems.isEmpty)
        // In the second file it covers the first.
        let second = try lines()
        try write(Array(second[..<2] + second[3...]))
        #expect(try log.acknowledge(epoch: 3) == 1)
        #expect(try log.verify().problems.isEmpty)
        let first = try String(contentsOfFile: log.formerPath, encoding: .utf8)
        try Data(first.dropFirst(10).utf8).write(to: URL(filePath: log.formerPath))
        #expect(try log.verify().problems.count >= 2)
        // A file with the bound's length is left before an acknowledgement, which covers it then.
        try Data(String(repeating: "x", count: CustodyLimits.keyLogBytes - 100).utf8).write(to: URL(filePath: log.path))
        #expect(try log.acknowledge(epoch: 3) != nil)
        #expect(try lines().count == 1 && log.verify().problems.isEmpty)
    }

    @Test("processes and threads append one after another, and a log that cannot be written is a notice")
    func concurrent() throws {
        DispatchQueue.concurrentPerform(iterations: 20) { _ in #expect(log.note(.backupMade) == nil) }
        #expect(try log.verify().entries.count == 20 && log.verify().problems.isEmpty)
        let lock = try LockFile(path: log.databasePath + "-lock", likeFile: nil).tryLock(.keyLog, .exclusive)
        var impatient = log
        impatient.wait = .milliseconds(20)
        #expect(impatient.note(.restored())?.contains("restored") == true)
        lock?.release()
        // A planted link is not followed.
        try Files.remove(log.path)
        try Data("kept".utf8).write(to: URL(filePath: folder.file("other")))
        try FileManager.default.createSymbolicLink(atPath: log.path, withDestinationPath: folder.file("other"))
        #expect(log.note(.restored()) != nil)
        #expect(try String(contentsOfFile: folder.file("other"), encoding: .utf8) == "kept")
        // Nor is a file written that has a second name.
        try Files.remove(log.path)
        try Files.link(folder.file("other"), to: log.path)
        #expect(log.note(.restored()) != nil)
        #expect(try String(contentsOfFile: folder.file("other"), encoding: .utf8) == "kept")
    }

    // A file of the user that another member of the group had given the name of the log got a line of it.
    @Test("a file of other content is not written, and the event is a notice")
    func foreignContent() throws {
        for content in ["a letter\nof two lines\n", "x"] {
            try write(content)
            #expect(log.note(.restored())?.contains("no key log") == true)
            #expect(try String(contentsOfFile: log.path, encoding: .utf8) == content)
        }
    }

    @Test("changes of keys are logged, and a change that cannot be logged happens all the same")
    func administration() throws {
        let fixture = try KeyFixture()
        let log = KeyLog(databasePath: fixture.path)
        let administration = fixture.administration
        try administration.add(SlotFixture.keyFile(3))
        try administration.change(3, to: SlotFixture.keyFile(4))
        try administration.label(3, SlotLabel("server"))
        try administration.add(RecoveryKey.random())
        try administration.remove(3)
        let names = ["slot-added", "slot-changed", "slot-labelled", "slot-added", "recovery-key-made", "slot-removed"]
        #expect(try log.verify().entries.map(\.event) == names)
        #expect(try log.verify().entries.map { $0.number("slot") } == [3, 3, 3, 4, nil, 3])
        // Refused changes leave no line.
        #expect(throws: StoreError.self) { try administration.remove(99) }
        #expect(try log.verify().entries.count == names.count)
        try Files.remove(log.path)
        try FileManager.default.createDirectory(atPath: log.path, withIntermediateDirectories: false)
        let notices = Notices()
        var noticing = administration
        noticing.onNotice = { notices.add($0) }
        try noticing.remove(4)
        #expect(notices.all.count == 1 && notices.all[0].contains("slot-removed"))
        #expect(try administration.sidecar().slots.map(\.id) == [1, 2])
    }

    @Test("the log has the permissions of the database")
    func attributes() throws {
        try Data("x".utf8).write(to: URL(filePath: log.databasePath))
        try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: log.databasePath)
        try log.record(.backupMade)
        #expect(try Files.status(of: log.path)?.permissions == 0o640)
    }

    // MARK: Lines that another program has made

    // Each of them digested the whole file before it: 14,303 lines took 15 s.
    @Test("a log full of acknowledgements is read in a time that grows as its length")
    func manyAcknowledgements() throws {
        var lines: [String] = []
        var previous = KeyLogEntry.beginning
        for number in 1...14_000 {
            let acknowledgement = try KeyLogAcknowledgement(
                problems: 0, epoch: 1, former: nil, present: [UInt8(number & 0xff)][...])
            let entry = try KeyLogEntry(
                .logAcknowledged(acknowledgement), number: UInt64(number), after: previous, now: 1)
            previous = entry.hash
            lines.append(entry.line)
        }
        func time(of count: Int) throws -> Duration {
            try write(Array(lines.prefix(count)))
            let start = ContinuousClock.now
            let audit = try log.verify()
            #expect(audit.entries.count == count && audit.problems.isEmpty)
            return ContinuousClock.now - start
        }
        // Other processes take the processor for a while: the shortest of three.
        let short = try (0..<3).map { _ in try time(of: 1_750) }.min() ?? .zero
        let long = try (0..<2).map { _ in try time(of: 14_000) }.min() ?? .zero
        #expect(long < short * 30, "8 times as many lines: \(short), \(long)")
    }

    // The number of the next line had 19 digits, which no line may have: each later line was unreadable.
    @Test("a line with the greatest number does not make the lines after it unreadable")
    func greatestNumber() throws {
        let crafted = try KeyLogEntry(
            .keyRevealed, number: 999_999_999_999_999_999, after: KeyLogEntry.beginning, now: 1)
        try write([crafted.line])
        #expect(try log.acknowledge(epoch: 1) == 1)
        for _ in 0..<3 { try log.record(.keyRevealed) }
        let audit = try log.verify()
        #expect(audit.problems.isEmpty && audit.entries.count == 5, "\(audit.problems)")
    }
}

@Suite("Docs/Formats/KeyLog.md")
struct KeyLogDocumentTests {
    private var document: String {
        get throws {
            let path = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../../../Docs/Formats/KeyLog.md").standardizedFileURL
            return try String(contentsOf: path, encoding: .utf8)
        }
    }

    @Test("the example of the document is a sound log")
    func example() throws {
        let lines = try document.split(separator: "```")[1].replacing("\n \"previous\"", with: "\"previous\"")
        let folder = try TemporaryFolder()
        let log = KeyLog(databasePath: folder.file("app.db"))
        try Data(lines.drop { $0 == "\n" }.utf8).write(to: URL(filePath: log.path))
        let expected = try expectedExample()
        let audit = try log.verify()
        #expect(audit.problems.isEmpty && audit.notes.isEmpty, "\(expected)")
        #expect(audit.entries.map(\.event) == ["store-created", "slot-added"])
    }

    /// The expected example.
    private func expectedExample() throws -> String {
        let first = try KeyLogEntry(
            .storeCreated(scheme: "slots"), number: 1, after: KeyLogEntry.beginning, now: 1_790_000_000, process: 4711,
            user: 1000)
        let second = try KeyLogEntry(
            .slotAdded(id: 2, kind: .recovery), number: 2, after: first.hash, now: 1_790_000_060, process: 4712,
            user: 1000)
        return first.line + "\n" + second.line
    }

    @Test("the document names every event, with its details")
    func events() throws {
        let document = try document
        let all: [KeyEvent] = [
            .storeCreated(scheme: "a"), .slotAdded(id: 1, kind: .keyFile), .slotChanged(id: 1, kind: .keyFile),
            .slotRemoved(id: 1), .slotLabelled(id: 1), .schemeChanged(to: "a"), .keyRevealed,
            .rotationBegun(from: 1, to: 2, mode: "compromised"), .rotationAbandoned(from: 1), .rotationCompleted(to: 1),
            .rotationRecovered(to: 1, forward: true), .backupMade, .backupVerified, .restored(), .recoveryKeyMade,
            .logDamaged(bytes: 1),
        ]
        for event in all {
            let row = try #require(document.split(separator: "\n").first { $0.hasPrefix("| `\(event.name)` |") })
            for detail in event.details { #expect(row.contains("`\(detail.name)`"), "\(event.name)") }
        }
        #expect(
            document.contains("1,048,576") && CustodyLimits.keyLogBytes == 1_048_576
                && CustodyLimits.keyLogLineBytes == 1024)
    }
}

private final class Notices: Sendable {
    private let found = Mutex<[String]>([])
    var all: [String] { found.withLock { $0 } }
    func add(_ notice: String) { found.withLock { $0.append(notice) } }
}
