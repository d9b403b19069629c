import CipherStore
import ChangesetSync
import Foundation

// Players on two devices, each with an encrypted store of its own, that exchange commits through a folder which reads
// nothing. Each step is a letter.
//
//     swift run SyncTwoDevices               a tour that checks itself, with two processes
//     swift run SyncTwoDevices FOLDER phone  in one terminal; FOLDER exists
//     swift run SyncTwoDevices FOLDER laptop in another one

// MARK: Records

/// Two devices count no numbers together: a key is random.
struct Player: Codable, Identifiable, Equatable, FetchableRecord, PersistableRecord {
    enum Columns {
        static let id = Column(CodingKeys.id)
        static let name = Column(CodingKeys.name)
        static let score = Column(CodingKeys.score)
    }

    var id: UUID
    var name: String
    var score: Int
}

// MARK: A device

/// A store, its repository, and the folder as its remote.
struct Device {
    let name: String
    let store: SharedStore
    let repository: ChangesetRepository
    let manager: SyncManager

    /// Opens the store of a device, and creates it if there is none. The first device of a folder begins the repository and
    /// invites; the others join.
    init(_ name: String, in folder: URL) async throws {
        func path(_ name: String) -> String { folder.appending(path: name).path }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("players") { db in
            try db.create(table: "player") { t in
                t.primaryKey("id", .blob)
                t.column("name", .text).notNull()
                t.column("score", .integer).notNull()
            }
        }
        self.name = name
        store = try SharedStore.open(
            at: path("\(name).db"), unlockedBy: .rawKeyFile(path: try key(path("\(name).key"))), migrator: migrator)
        let isFirst = mkdir(path("remote"), 0o700) == 0
        if try isFirst || ChangesetRepository.isPresent(in: store) {
            repository = try ChangesetRepository(store, named: name)
        } else {
            let invitation = try Invitation(contentsOf: path("app.invitation"))
            repository = try ChangesetRepository.join(
                store, invitation, unlockedBy: .rawKeyFile(path: path("invitation.key")), folder: path("remote"),
                named: name)
        }
        manager = try SyncManager(repository, folder: path("remote"))
        if isFirst {
            let invitation = try repository.invitation(lockedBy: .rawKeyFile(path: try key(path("invitation.key"))))
            // The other device looks the invitation up at the remote.
            try await manager.setup()
            try invitation.write(to: path("app.invitation"))
        }
    }

    /// Does what a letter stands for.
    ///
    /// - Returns: What happened, for people.
    func press(_ letter: Character) async throws -> String {
        switch letter {
        case "c":
            let names = ["Ann", "Ben", "Cleo", "Dov", "Eve", "Fay", "Gil", "Hana"]
            let player = Player(id: UUID(), name: names[Int.random(in: 0..<8)] + " of the \(name)", score: 0)
            try repository.commit(meta: "{\"create\": \"\(name)\"}") { db in try player.insert(db) }
            return "\(player.name) is there"
        case "s":
            let winner = try repository.commit(meta: "{\"score\": \"\(name)\"}") { db in
                guard var player = try Player.order(sql: "random()").fetchOne(db) else { return "nobody" }
                try player.updateChanges(db) { $0.score += 1 }
                return player.name
            }
            return "one point for \(winner)"
        case "p": return "\(try await manager.push()) commits pushed"
        case "f": return "\(try await manager.fetch()) commits fetched; the players are as before"
        case "l": return try repository.pull() == nil ? "nothing to pull" : "the players are those of the new head"
        case "u":
            guard let commit = try repository.log(limit: 1).first else { return "nothing to undo" }
            let kept = try repository.revert(commit.uuid).kept
            return kept.isEmpty ? "the latest commit is taken back" : "\(kept.count) later changes stay"
        default: return "no such command: \(letter)"
        }
    }

    func lines() throws -> [String] {
        let (players, head) = try store.read { db in
            (try Player.order { [$0.name, $0.id] }.fetchAll(db), try Head.fetchOne(db)?.uuid)
        }
        let status = try repository.status()
        let isSent = status.remotes.allSatisfy(\.isUpToDate)
        let left = "\(isSent ? "sent" : "to push")  to pull \(status.readyCount)  obstacles \(status.obstacles.count)"
        let rows = players.map { player in
            "  \(player.name)" + String(repeating: " ", count: max(1, 22 - player.name.count)) + "\(player.score)"
        }
        return [" \(name)   head \(head?.prefix(8) ?? "none")   \(left)"] + (rows.isEmpty ? ["  no players"] : rows)
    }
}

/// A random key in a file that its owner alone can read; one that is there stays.
func key(_ path: String) throws -> String {
    if FileManager.default.fileExists(atPath: path) { return path }
    let bytes = Data((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    let owner: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
    try check(FileManager.default.createFile(atPath: path, contents: bytes, attributes: owner), "a key was made")
    return path
}

// MARK: The terminal

/// Reads letters, one or more a line, and draws the table again after each.
func run(_ device: Device) async throws {
    let isTerminal = isatty(0) != 0 && isatty(1) != 0
    var news = "c create  s score  u undo  p push  f fetch  l pull  q quit"
    var letters: [Character] = []
    while true {
        let text = try device.lines() + [news, ""]
        if isTerminal { print("\u{1b}[2J\u{1b}[H", terminator: "") }
        print(text.joined(separator: "\n"), terminator: isTerminal ? "> " : "\n")
        fflush(nil)
        while letters.isEmpty {
            guard let line = readLine() else { return }
            letters = line.filter { !$0.isWhitespace }
        }
        let letter = letters.removeFirst()
        if letter == "q" { return }
        do {
            news = try await device.press(letter)
        } catch let error as EngineError {
            news = "\(error)"
        }
    }
}

// MARK: The tour

/// Another process with a device, to which letters are sent.
final class Terminal {
    let process = Process()
    private let keys = Pipe()
    private let screen = Pipe()

    init(_ device: String, in folder: URL) throws {
        process.executableURL = Bundle.main.executableURL
        process.arguments = [folder.path, device]
        process.standardInput = keys
        process.standardOutput = screen
        try process.run()
        _ = try table()
    }

    /// Presses keys one after the other.
    ///
    /// - Returns: What the last one has printed.
    func press(_ letters: String) throws -> [String] {
        var last: [String] = []
        for letter in letters {
            keys.fileHandleForWriting.write(Data("\(letter)\n".utf8))
            last = try table()
        }
        return last
    }

    func end() throws {
        keys.fileHandleForWriting.write(Data("q\n".utf8))
        process.waitUntilExit()
        try check(process.terminationStatus == 0, "a device ended well")
    }

    /// The lines up to an empty one.
    private func table() throws -> [String] {
        var (lines, line) = ([String](), [UInt8]())
        while let byte = try screen.fileHandleForReading.read(upToCount: 1)?.first {
            if byte != UInt8(ascii: "\n") {
                line.append(byte)
            } else if line.isEmpty {
                return lines
            } else {
                lines.append(String(decoding: line, as: UTF8.self))
                line = []
            }
        }
        throw Failure(description: "a device has ended: \(lines)")
    }
}

/// Both devices create players without knowing of each other, and have the same ones at the end.
func tour(in folder: URL) throws {
    let phone = try Terminal("phone", in: folder)
    let laptop = try Terminal("laptop", in: folder)
    func show(_ lines: [String]) { print(lines.joined(separator: "\n") + "\n") }

    _ = try phone.press("ccp")
    // The laptop has commits of its own: it pulls nevertheless.
    show(try laptop.press("cf"))
    show(try laptop.press("lp"))
    show(try phone.press("fl"))
    // Both give points at the same time.
    for device in [phone, laptop] { _ = try device.press("sscp") }
    for device in [phone, laptop] { _ = try device.press("flp") }
    for device in [phone, laptop] { _ = try device.press("fl") }
    var tables = try [phone, laptop].map { try players($0.press("l")) }
    try check(tables[0] == tables[1] && tables[0].count == 5, "both devices have the same five players")
    // The latest commit is taken back on one device, and so on the other one.
    _ = try phone.press("up")
    tables = [try players(phone.press("l")), try players(laptop.press("fl"))]
    try check(tables[0] == tables[1], "both devices have the same players after a commit was taken back")
    for device in [phone, laptop] { try device.end() }
    try checkSecrecy(folder.appending(path: "remote"))
    print("processes \(phone.process.processIdentifier) and \(laptop.process.processIdentifier) have the same players")
    print("and nothing of them is readable at the remote")
}

/// The lines of players.
func players(_ lines: [String]) -> [String] { Array(lines.dropFirst().dropLast()) }

/// Nothing of the players is readable.
func checkSecrecy(_ remote: URL) throws {
    let names = FileManager.default.enumerator(atPath: remote.path)?.compactMap { $0 as? String } ?? []
    try check(names.count { $0.contains("/c/") } > 1, "the remote has objects")
    for name in names {
        let content = FileManager.default.contents(atPath: remote.appending(path: name).path) ?? Data()
        for word in ["of the phone", "player", "score", "create"] {
            try check(content.range(of: Data(word.utf8)) == nil, "\"\(word)\" is not readable in \(name)")
        }
    }
}

// MARK: The program

struct Failure: Error, CustomStringConvertible {
    let description: String
}

func check(_ condition: Bool, _ what: String) throws {
    if !condition { throw Failure(description: "not true: \(what)") }
}

do {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.count == 2 {
        let device = try await Device(arguments[1], in: URL(filePath: arguments[0]).absoluteURL)
        try await run(device)
        try device.store.close()
    } else if arguments.isEmpty {
        let folder = FileManager.default.temporaryDirectory.appending(path: "devices-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try tour(in: folder)
    } else {
        throw Failure(description: "usage: SyncTwoDevices [FOLDER NAME]")
    }
} catch {
    FileHandle.standardError.write(Data("SyncTwoDevices: \(error)\n".utf8))
    exit(1)
}
