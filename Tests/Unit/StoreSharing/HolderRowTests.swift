import Foundation
import StorePlatform
import TestKit
import Testing

@testable import StoreSharing

@Suite("Table of holders")
struct HolderRowTests {
    let folder: TemporaryFolder
    let database: String
    let path: String

    init() throws {
        folder = TemporaryFolder()
        database = folder.path("app.db")
        path = folder.path("app.db-lock")
        #expect(FileManager.default.createFile(atPath: database, contents: Data()))
        _ = try LockFile(path: path, likeFile: nil)
    }

    private func take(_ label: String = "test", _ roles: HolderRoles = .writer) throws -> HolderRow? {
        try HolderRow.take(path: path, label: label, roles: roles)
    }

    private func holders() throws -> [StoreHolder] { Array(try StoreHolders(of: database)) }

    private func overwrite(_ bytes: [UInt8], at offset: Int) throws {
        try FileDescriptor(opening: path, .readWrite).write(bytes, at: offset)
    }

    private static let mapped = Int(LockByte.mappedBase)

    @Test("the document of the lock file has the offsets of the code")
    func document() throws {
        let document = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Docs/Formats/LockFile.md").standardizedFileURL
        var documented: [String: Int] = [:]
        for line in try String(contentsOf: document, encoding: .utf8).split(separator: "\n") where line.hasPrefix("|") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            if cells.count >= 3, cells[2].hasPrefix("`TableLayout.") {
                documented[cells[2].trimmingCharacters(in: ["`"])] = Int(cells[0])
            }
        }
        typealias Header = TableLayout.Header
        typealias Row = TableLayout.Row
        let constants: [String: Int] = [
            "TableLayout.Header.magic": Header.magic, "TableLayout.Header.version": Header.version,
            "TableLayout.Header.handedOverAt": Header.handedOverAt,
            "TableLayout.Header.owner": Header.owner, "TableLayout.Header.nextTicket": Header.nextTicket,
            "TableLayout.Header.waiting": Header.waiting, "TableLayout.Header.requests": Header.requests,
            "TableLayout.Header.insists": Header.insists, "TableLayout.Header.checkpointed": Header.checkpointed,
            "TableLayout.Header.watchers": Header.watchers, "TableLayout.Header.watching": Header.watching,
            "TableLayout.notices": TableLayout.notices,
            "TableLayout.Header.byteCount": Header.byteCount,
            "TableLayout.Row.generation": Row.generation, "TableLayout.Row.wake": Row.wake,
            "TableLayout.Row.ticket": Row.ticket, "TableLayout.Row.waitingSince": Row.waitingSince,
            "TableLayout.Row.process": Row.process, "TableLayout.Row.roles": Row.roles,
            "TableLayout.Row.processStart": Row.processStart, "TableLayout.Row.pidNamespace": Row.pidNamespace,
            "TableLayout.Row.openedAt": Row.openedAt, "TableLayout.Row.writingSince": Row.writingSince,
            "TableLayout.Row.writeCount": Row.writeCount, "TableLayout.Row.writeTotal": Row.writeTotal,
            "TableLayout.Row.longestWrite": Row.longestWrite, "TableLayout.Row.waitTotal": Row.waitTotal,
            "TableLayout.Row.label": Row.label, "TableLayout.Row.byteCount": Row.byteCount,
        ]
        #expect(documented == constants)
        #expect(Row.label + Row.labelBytes == Row.byteCount)
        #expect(Header.waiting + 8 * Header.waitingWords <= Header.requests && Header.checkpointed < Header.byteCount)
        #expect(TableLayout.rowCount == 64 * Header.waitingWords && TableLayout.rowCount == 64 * Header.watchingWords)
        #expect(Header.watchers + 8 <= Header.watching && Header.watching + 8 * Header.watchingWords <= 512)
        #expect(TableLayout.notices == TableLayout.row(TableLayout.rowCount))
        #expect(TableLayout.fileBytes == 143_360)
    }

    @Test("the file has room behind every byte of the table, and begins with its name")
    func fileContent() throws {
        let row = try #require(try take())
        let file = try FileDescriptor(opening: path, .readOnly)
        #expect(try file.status().byteCount == TableLayout.fileBytes)
        #expect(try file.read(at: Self.mapped, byteCount: 8) == Array("CSHOLDER".utf8))
        var status = stat()
        #expect(stat(path, &status) == 0 && Int(status.st_blocks) * 512 >= TableLayout.byteCount)
        row.release()
    }

    @Test("who holds a store shows with process, label and uses, and is gone when it gives its place back")
    func rows() throws {
        let writer = try #require(try take("importer", [.writer, .lease]))
        let reader = try #require(try take("näher\u{1b}[2Jbetrachtet und länger als erlaubt", [.readOnly]))
        let gate = WriterQueue(writer)
        #expect(gate.enterIfFree())
        gate.showBegin(at: MonotonicTime.now)
        let found = try holders()
        #expect(found.map(\.process) == [getpid(), getpid()])
        #expect(found.map(\.uses) == [[.lease, .writer, .writeTurn], [.readOnly]])
        #expect(found[0].label == "importer" && found[0].state == .running && found[0].writingFor != nil)
        #expect(found[1].label == "näher?[2Jbetrachtet und länger" && found[1].writingFor == nil)
        #expect(found[0].command == ProcessInspector.commandName(of: getpid()))
        #expect(try StoreHolders(of: database).writer?.label == "importer")
        let age = Duration.milliseconds(Int64(Date().timeIntervalSince1970 * 1000)) - (found[0].openedAt ?? .zero)
        #expect(Duration.zero...(.seconds(60)) ~= age)
        writer.release()
        #expect(try holders().map(\.uses) == [[.readOnly]])
        reader.abandon()
        #expect(try holders().isEmpty)
    }

    @Test("a row is used again, and what its former holder left there is nobody's")
    func generations() throws {
        let former = try #require(try take())
        let gate = WriterQueue(former)
        #expect(gate.enterIfFree())
        let word = former.table.owner
        former.abandon()
        let next = try #require(try take())
        #expect(next.number == former.number && next.generation != former.generation)
        #expect(!word.belongs(to: next.generation))
        #expect(next.table.owner == .free)
        // Also when the word comes back, as from a process that slept.
        #expect(next.table.replaceOwner(.free, with: word))
        #expect(try WriterQueue(#require(try take())).tryToEnter())
    }

    @Test("when all places are taken, the next one goes without")
    func exhaustion() throws {
        let first = try #require(try take())
        let all = try FileDescriptor(opening: path, .readWrite)
        // F_OFD_SETLK
        var rest = flock(
            l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: off_t(LockByte.rows.lowerBound) + 1,
            l_len: off_t(LockByte.rows.count) - 1, l_pid: 0)
        #expect(fcntl(all.number, 37, &rest) == 0)
        #expect(try take() == nil)
        first.release()
        #expect(try take() != nil)
    }

    @Test("whatever a crash of the machine left in the table, it just works")
    func staleContent() throws {
        _ = try #require(try take())
        for seed in [UInt64(1), 2, 3] {
            var random = SplitMix(state: seed)
            let garbage = (0..<(TableLayout.byteCount - 16)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
            try overwrite(garbage, at: Self.mapped + 16)
            #expect(try holders().isEmpty)
            let one = WriterQueue(try #require(try take("one")))
            let two = WriterQueue(try #require(try take("two")))
            #expect(one.tryToEnter() && !two.tryToEnter())
            one.leave()
            #expect(two.tryToEnter())
            two.leave()
            #expect(try holders().map(\.label) == ["one", "two"])
        }
    }

    @Test("content that is not this table is replaced while nobody uses it, and else left alone", arguments: [0, 8])
    func foreignContent(offset: Int) throws {
        let holder = try #require(try take())
        try overwrite([0xff, 0xfe], at: Self.mapped + offset)
        #expect(try take() == nil)
        #expect(try holders().isEmpty)
        holder.release()
        #expect(try take() != nil)
    }

    // Story: a member of the group wrote the number of another user's process into its row and took the write turn: a
    // rotation advised to end that process.
    @Test("a row with the number of a process that has nothing to do with the file does not name that process")
    func foreignNumber() throws {
        let row = try #require(try take("nightly-import"))
        #expect(WriterQueue(row).enterIfFree())
        // The first process of the machine.
        try overwrite(withUnsafeBytes(of: Int32(1), Array.init), at: Self.mapped + TableLayout.row(row.number) + 24)
        let holder = try #require(try holders().first)
        #expect(holder.label == "nightly-import" && holder.uses.contains(.writeTurn))
        // The system shows who holds the lock of the row where this process may see it.
        let isNamed = holder.process == ProcessInspector.currentProcess
        #expect(isNamed || "\(holder)" == "a process that says to be 1", "\(holder)")
        #expect(isNamed == (holder.command != nil))
        #expect(try StoreHolders(of: database).writer == holder)
    }

    @Test("a file of any length is extended before it is mapped", arguments: [0, 1, 4096, 5000, 139_263])
    func truncatedFile(byteCount: Int) throws {
        _ = try #require(try take())
        #expect(truncate(path, off_t(byteCount)) == 0)
        let row = try #require(try take())
        #expect(WriterQueue(row).tryToEnter())
        #expect(try FileDescriptor(opening: path, .readOnly).status().byteCount == TableLayout.fileBytes)
    }

    @Test("a table that is looked at while its file is cut short has no holders")
    func cutWhileRead() throws {
        _ = try #require(try take())
        #expect(truncate(path, 100) == 0)
        #expect(try holders().isEmpty)
        #expect(unlink(path) == 0)
        #expect(try holders().isEmpty)
    }

    @Test("a row is taken in the file that has the name, not in one that was replaced")
    func replacedFile() throws {
        let old = try #require(try take("old"))
        #expect(unlink(path) == 0)
        _ = try LockFile(path: path, likeFile: nil)
        let new = try #require(try take("new"))
        #expect(try holders().map(\.label) == ["new"])
        // Both go on; SQLite's own locks keep them apart.
        #expect(WriterQueue(old).tryToEnter() && WriterQueue(new).tryToEnter())
    }

    @Test("a process that is stopped or gone is told as such")
    func processStates() throws {
        let child = Process()
        child.executableURL = URL(fileURLWithPath: "/bin/cat")
        child.standardInput = Pipe()
        try child.run()
        defer { child.terminate() }
        let process = child.processIdentifier
        #expect(ProcessInspector.state(of: process) == .running)
        #expect(ProcessInspector.startTicks(of: process) ?? 0 >= ProcessInspector.startTicks(of: getpid()) ?? 0)
        kill(process, SIGSTOP)
        #expect(waitUntil { ProcessInspector.state(of: process) == .stopped })
        kill(process, SIGCONT)
        kill(process, SIGKILL)
        child.waitUntilExit()
        #expect(waitUntil { ProcessInspector.state(of: process) == .gone })
    }

    @Test("a link in the place of the lock file is not followed, and what it leads to is not written")
    func link() throws {
        let victim = folder.path("victim")
        try Data(repeating: 7, count: 300_000).write(to: URL(fileURLWithPath: victim))
        try FileManager.default.removeItem(atPath: path)
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: victim)
        #expect(throws: SystemError.self) { try LockFile(path: path, likeFile: database) }
        #expect(throws: SystemError.self) { try LockFile(path: path, likeFile: database, allowsReadOnly: true) }
        #expect(throws: SystemError.self) { try take() }
        #expect(throws: SystemError.self) { try YieldNotifier(path: path) }
        #expect(throws: SystemError.self) { try holders() }
        #expect(throws: SystemError.self) { try LockFile.matchAttributes(of: path, to: database) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: victim)) == Data(repeating: 7, count: 300_000))
    }

    // A file of the user that another member of the group had given the name of the lock file got the table of holders, and
    // the mode of the database.
    @Test("a file of other content is neither used nor changed, whatever its mode and its number of names")
    func secondName() throws {
        let victim = folder.path("victim")
        let content = Data("a letter".utf8)
        try content.write(to: URL(fileURLWithPath: victim))
        #expect(chmod(victim, 0o600) == 0)
        try Data().write(to: URL(fileURLWithPath: database))
        #expect(chmod(database, 0o664) == 0)
        try FileManager.default.removeItem(atPath: path)
        try Files.link(victim, to: path)
        #expect(throws: SystemError.self) { try take() }
        #expect(throws: SystemError.self) { try LockFile.matchAttributes(of: path, to: database) }
        #expect(try Data(contentsOf: URL(fileURLWithPath: victim)) == content)
        try Files.remove(path)
        try Files.rename(victim, to: path)
        #expect(throws: SystemError.self) { try LockFile.matchAttributes(of: path, to: database) }
        #expect(throws: SystemError.self) { try take() }
        #expect(throws: SystemError.self) { try LockFile(path: path, likeFile: database) }
        #expect(throws: SystemError.self) { try YieldNotifier(path: path) }
        #expect(LockFile.fault(of: path)?.isAlreadyThere == true)
        #expect(try Files.status(of: path)?.permissions == 0o600)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == content)
        try Files.remove(path)
        try Data().write(to: URL(fileURLWithPath: path))
        try LockFile.matchAttributes(of: path, to: database)
        #expect(try Files.status(of: path)?.permissions == 0o664)
        #expect(LockFile.fault(of: path) == nil)
    }

    /// A shell that has opened files and waits for the end of its input.
    private func shell(_ redirections: String) throws -> (Process, Pipe) {
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "exec \(redirections); echo; read line", "sh", database, path]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        #expect(output.fileHandleForReading.readData(ofLength: 1).count == 1)
        return (process, input)
    }

    // A connection that has not read yet holds no lock.
    @Test("a process that has the database open for writing, but not the lock file, is found without any lock")
    func strangers() throws {
        let (stranger, input) = try shell("3<>\"$1\"")
        let others = try [shell("3<\"$1\""), shell("3<>\"$1\" 4<>\"$2\"")]
        #expect(StoreHolders.unleased(of: database).map(\.process) == [stranger.processIdentifier])
        #expect(try holders().map(\.process) == [stranger.processIdentifier])
        #expect(try holders().map(\.uses) == [[.open]])
        for (process, input) in others + [(stranger, input)] {
            try input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
        #expect(StoreHolders.unleased(of: database).isEmpty)
    }

    // `truncate -s 0 app.db-lock` ended every process that had the store open by SIGBUS.
    @Test("a lock file that another program truncates does not end the processes that have mapped it")
    func truncated() throws {
        for length in [0, Self.mapped, Self.mapped + 100] {
            let row = try #require(try take())
            let queue = WriterQueue(row)
            #expect(queue.enterIfFree() && !row.table.isLost)
            try #require(FileHandle(forUpdatingAtPath: path)).truncate(atOffset: UInt64(length))
            queue.leave()
            row.table.forEachWaiter { _ in }
            #expect(row.row.ticket == 0)
            row.setRole(.suspended, true)
            #expect(row.table.isLost)
            // It goes on alone.
            #expect(queue.enterIfFree())
            queue.leave()
            row.table.notify(watcher: 3)
            // A later process does not use the table while the former holders may have it mapped, or makes it again.
            let other = try take("other")
            #expect(other == nil || other?.table.isLost == false)
            other?.release()
            row.release()
            let next = try #require(try take())
            #expect(next.table.isLost == false && WriterQueue(next).enterIfFree())
            next.release()
            try FileManager.default.removeItem(atPath: path)
            _ = try LockFile(path: path, likeFile: nil)
        }
    }
}

/// Random numbers that a seed repeats.
private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
        return value ^ (value >> 31)
    }
}
