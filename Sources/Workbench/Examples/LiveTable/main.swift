import CipherStore
import Foundation

// The departures of a station, in an encrypted store that several processes share: one writes, others show a table that
// draws itself again after each commit.
//
//     swift run LiveTable                a tour that checks itself, with a second process that writes
//     swift run LiveTable FOLDER show    in one terminal; FOLDER has a key in board.key
//     swift run LiveTable FOLDER write   in another one

// MARK: Records

struct Departure: Codable, Identifiable, Equatable, FetchableRecord, MutablePersistableRecord {
    enum Columns {
        static let id = Column(CodingKeys.id)
        static let time = Column(CodingKeys.time)
        static let delay = Column(CodingKeys.delay)
    }

    var id: Int64?
    /// Minutes since midnight, without the delay.
    var time: Int
    var destination: String
    var platform: Int
    var delay = 0

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// The table shows one state of the store, whatever is written meanwhile.
struct Board: Equatable, Sendable {
    var clock: Int
    var departures: [Departure]

    init(_ db: Database) throws {
        clock = try Int.fetchOne(db, sql: "SELECT minute FROM clock") ?? 0
        departures = try Departure.order { [$0.time + $0.delay, $0.id] }.fetchAll(db)
    }
}

// MARK: The store

/// Opens the store, and creates it if there is none. Each process of the program calls this.
func openBoard(in folder: URL) throws -> SharedStore {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("departures") { db in
        try db.create(table: "departure") { t in
            t.autoIncrementedPrimaryKey("id")
            t.column("time", .integer).notNull()
            t.column("destination", .text).notNull()
            t.column("platform", .integer).notNull()
            t.column("delay", .integer).notNull()
        }
        try db.execute(sql: "CREATE TABLE clock (minute INTEGER NOT NULL); INSERT INTO clock VALUES (719)")
        // Observers of other tables are not woken by these then.
        try db.recordHistory(of: .allTables)
    }
    return try SharedStore.open(
        at: folder.appending(path: "board.db").path,
        unlockedBy: .keyFile(path: folder.appending(path: "board.key").path),
        migrator: migrator)
}

// MARK: The process that writes

let destinations = ["Aveiro", "Bergen", "Coimbra", "Dunkerque", "Esbjerg", "Faro", "Gdynia"]

/// One minute passes: one transaction, whose parts are seen together or not at all.
func pass(_ db: Database) throws -> String {
    try db.execute(sql: "UPDATE clock SET minute = minute + 1")
    let now = try Board(db).clock
    var news: [String] = []
    for departure in try Departure.filter({ $0.time + $0.delay < now }).fetchAll(db) {
        try departure.delete(db)
        news.append("\(departure.destination) has left")
    }
    var added: [String] = []
    while try Departure.fetchCount(db) < 6 {
        let last = try Departure.select({ max($0.time) }, as: Int.self).fetchOne(db) ?? now
        let next = Departure(
            time: last + 4, destination: destinations[last % destinations.count], platform: 1 + last % 5)
        added.append(try next.inserted(db).destination)
    }
    if !added.isEmpty { news.append(added.count == 1 ? "\(added[0]) is new" : "\(added.count) departures are new") }
    let late = try Departure.order { $0.id }.limit(1, offset: now % 6).fetchOne(db)
    if now.isMultiple(of: 2), var late {
        try late.updateChanges(db) { $0.delay += 1 + now % 4 }
        news.append("\(late.destination) is \(late.delay) min late")
    }
    return "\(clockText(now))  \(news.isEmpty ? "nothing new" : news.joined(separator: ", "))"
}

func write(minutes: Int, pause: Duration, in folder: URL) async throws {
    let store = try openBoard(in: folder)
    for minute in 0..<minutes {
        if minute > 0 { try await Task.sleep(for: pause) }
        print(try await store.write { db in try pass(db) })
        fflush(nil)
    }
    try store.close()
}

// MARK: The process that shows

/// The states of the board, each after a commit of any process. A slow reader gets the newest one.
func boards(_ store: SharedStore) -> AsyncValueObservation<Board> {
    ValueObservation.tracking { db in try Board(db) }.removeDuplicates()
        .values(in: store, bufferingPolicy: .bufferingNewest(1))
}

/// Draws the table in the place of the former one, until the program is ended.
func show(in folder: URL) async throws {
    let store = try openBoard(in: folder)
    let isTerminal = isatty(1) != 0
    if isTerminal { print("\u{1b}[2J", terminator: "") }
    for try await board in boards(store) {
        let lines = lines(of: board, isColored: isTerminal)
        print(isTerminal ? "\u{1b}[H" + lines.map { $0 + "\u{1b}[K\r\n" }.joined() : lines.joined(separator: "\n"))
        fflush(nil)
    }
}

func lines(of board: Board, isColored: Bool) -> [String] {
    func styled(_ text: String, _ code: Int) -> String { isColored ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text }
    func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
    let head = " " + padded("time", 8) + padded("to", 14) + padded("platform", 11) + padded("", 14)
    let rows = board.departures.map { departure in
        let start = " " + padded(clockText(departure.time), 8) + padded(departure.destination, 14)
        let state = departure.delay > 0 ? "\(departure.delay) min late" : "on time"
        return start + padded("   \(departure.platform)", 11) + styled(padded(state, 14), departure.delay > 0 ? 33 : 32)
    }
    return [styled(" Departures" + padded("", 28) + "\(clockText(board.clock))   ", 1), styled(head, 7)] + rows
}

func clockText(_ minute: Int) -> String {
    let (hour, rest) = (minute / 60 % 24, minute % 60)
    return "\(hour < 10 ? "0" : "")\(hour):\(rest < 10 ? "0" : "")\(rest)"
}

// MARK: The tour

/// Another process writes forty commits while this one observes. It is notified of them without asking.
func tour(in folder: URL) async throws {
    let store = try openBoard(in: folder)
    let end = try await store.read { try Board($0) }.clock + 40
    let writer = try startThisProgram([folder.path, "write", "40", "5"])
    let seen = try await within(.seconds(60)) { try await follow(store, until: end) }
    writer.waitUntilExit()
    try check(writer.terminationStatus == 0, "the process that writes succeeded")
    try check(seen.count > 1, "more than one state was seen")
    try check(zip(seen, seen.dropFirst()).allSatisfy { $0.clock < $1.clock }, "the states came in their order")
    for board in seen.dropFirst() where board.clock >= 720 {
        try check(board.departures.count == 6, "a state is that of a whole transaction")
        try check(board.departures.allSatisfy { $0.time + $0.delay >= board.clock }, "who has left is not shown")
    }
    let last = try await store.read { try Board($0) }
    try check(seen.last == last, "the last state is what is in the store")
    for line in lines(of: last, isColored: false) { print(line) }
    print("process \(ProcessInfo.processInfo.processIdentifier) drew the table \(seen.count) times")
    print("while process \(writer.processIdentifier) committed 40 times")
    try store.close()
}

/// The states up to a time.
func follow(_ store: SharedStore, until end: Int) async throws -> [Board] {
    var seen: [Board] = []
    for try await board in boards(store) {
        seen.append(board)
        if board.clock >= end { break }
    }
    return seen
}

// MARK: The program

struct Failure: Error, CustomStringConvertible {
    let description: String
}

func check(_ condition: Bool, _ what: String) throws {
    if !condition { throw Failure(description: "not true: \(what)") }
}

/// The result of some work, or an error when it takes too long.
func within<T: Sendable>(_ limit: Duration, _ work: @escaping @Sendable () async throws -> T) async throws -> T {
    try await withThrowingTaskGroup(of: T.self) { group in
        group.addTask(operation: work)
        group.addTask {
            try await Task.sleep(for: limit)
            throw Failure(description: "no end after \(limit)")
        }
        defer { group.cancelAll() }
        guard let first = try await group.next() else { throw CancellationError() }
        return first
    }
}

/// Runs this program in another process.
func startThisProgram(_ arguments: [String]) throws -> Process {
    let process = Process()
    process.executableURL = Bundle.main.executableURL
    process.arguments = arguments
    process.standardOutput = FileHandle.nullDevice
    try process.run()
    return process
}

/// A folder for the store, with a random passphrase in a file that its owner alone can read. A program that stays
/// installed makes its key once: `(umask 077; openssl rand -base64 32 > board.key)`.
func makeFolder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "board-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let passphrase = UUID().uuidString + UUID().uuidString
    let path = folder.appending(path: "board.key").path
    let owner: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
    try check(FileManager.default.createFile(atPath: path, contents: Data(passphrase.utf8), attributes: owner), "a key")
    return folder
}

do {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.count == 2, arguments[1] == "show" {
        try await show(in: URL(filePath: arguments[0]))
    } else if arguments.count >= 2, arguments[1] == "write" {
        // How many minutes to write, and the pause between them in milliseconds.
        let numbers = arguments.dropFirst(2).compactMap { Int($0) }
        let pause = Duration.milliseconds(numbers.dropFirst().first ?? 1_000)
        try await write(minutes: numbers.first ?? 600, pause: pause, in: URL(filePath: arguments[0]))
    } else if arguments.isEmpty {
        let folder = try makeFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try await tour(in: folder)
    } else {
        throw Failure(description: "usage: LiveTable [FOLDER show | FOLDER write [MINUTES [MILLISECONDS]]]")
    }
} catch {
    FileHandle.standardError.write(Data("LiveTable: \(error)\n".utf8))
    exit(1)
}
