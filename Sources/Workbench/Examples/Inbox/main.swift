import CipherStore
import Foundation

// An inbox with full-text search, in an encrypted store that several processes share: some deliver, one searches.
//
//     swift run Inbox                                             a tour, with processes of its own
//     swift run Inbox FOLDER deliver Ann "Lunch" "Soup at noon?"  in one terminal; FOLDER has a key in inbox.key
//     swift run Inbox FOLDER search soup                          in another one

// MARK: Records

struct Message: Codable, Identifiable, FetchableRecord, MutablePersistableRecord {
    enum Columns {
        static let sender = Column(CodingKeys.sender)
        static let receivedAt = Column(CodingKeys.receivedAt)
    }
    /// The index has the rowids of the messages.
    static let index = hasOne(Table("message_ft"), key: "index", using: ForeignKey(["rowid"], to: ["id"]))

    var id: Int64?
    var sender: String
    var subject: String
    var text: String
    var receivedAt: Date

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// A message that was found, and the place in its text.
struct Hit: Decodable, FetchableRecord {
    var message: Message
    var snippet: String
}

// MARK: The store

/// Opens the inbox, and creates it if there is none. Each process of the program calls this.
func openInbox(in folder: URL) throws -> SharedStore {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("messages") { db in
        try db.create(table: "message") { t in
            t.autoIncrementedPrimaryKey("id")
            t.column("sender", .text).notNull()
            t.column("subject", .text).notNull()
            t.column("text", .text).notNull()
            t.column("receivedAt", .datetime).notNull()
        }
        // The index follows the table by triggers. It is in the same file, as encrypted as the table.
        try db.create(virtualTable: "message_ft", using: FTS5()) { t in
            t.synchronize(withTable: "message")
            t.tokenizer = .porter(wrapping: .unicode61())
            t.column("subject")
            t.column("text")
        }
    }
    return try SharedStore.open(
        at: folder.appending(path: "inbox.db").path,
        unlockedBy: .keyFile(path: folder.appending(path: "inbox.key").path),
        migrator: migrator)
}

/// The messages that contain all words that a user typed, the best ones first. Nothing that a user types is an error.
func search(_ words: String, _ db: Database) throws -> [Hit] {
    guard let pattern = FTS5Pattern(matchingAllPrefixesIn: words) else { return [] }
    return
        try Message
        .joining(required: Message.index.matching(pattern).order(Column.rank))
        .annotated(with: SQL("snippet(message_ft, 1, '[', ']', '...', 5)").forKey("snippet"))
        .asRequest(of: Hit.self)
        .fetchAll(db)
}

// MARK: What the processes do

func deliver(_ sender: String, _ subject: String, _ text: String, to folder: URL) throws {
    let store = try openInbox(in: folder)
    let message = try store.write { db in
        try Message(sender: sender, subject: subject, text: text, receivedAt: Date()).inserted(db)
    }
    print("process \(ProcessInfo.processInfo.processIdentifier) delivered message \(message.id ?? 0)")
    try store.close()
}

@discardableResult
func show(_ words: String, in store: SharedStore) throws -> [Hit] {
    let hits = try store.read { db in try search(words, db) }
    print("search: \(words)")
    for hit in hits { print("  \(hit.message.sender), \(hit.message.subject): \(hit.snippet)") }
    if hits.isEmpty { print("  nothing") }
    return hits
}

/// Two other processes deliver while this one has the inbox open; then it searches.
func tour(in folder: URL) throws {
    let store = try openInbox(in: folder)
    print("process \(ProcessInfo.processInfo.processIdentifier) opened the inbox")
    try runThisProgram([folder.path, "deliver", "Ann", "Lunch", "Soup at noon? The zeppelin is too slow."])
    try runThisProgram([folder.path, "deliver", "Ben", "Cooking", "My soups need more salt, and more time."])
    try check(show("soup", in: store).count == 2, "both messages are found, the singular and the plural")
    try check(show("zep noon", in: store).map(\.message.sender) == ["Ann"], "beginnings of words are enough")
    try check(show("\"salt AND (", in: store).map(\.message.sender) == ["Ben"], "operators are words like others")
    try check(show("\"(*", in: store).isEmpty, "and what has no word finds nothing")
    let senders = try store.read { db in
        try Message.order { $0.receivedAt.desc }.select({ $0.sender }, as: String.self).fetchAll(db)
    }
    try check(senders == ["Ben", "Ann"], "the newest message comes first")
    // The texts of an index are in the files, and readable in none of them.
    for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
        let bytes = try Data(contentsOf: file)
        try check(bytes.range(of: Data("zeppelin".utf8)) == nil, "\(file.lastPathComponent) is encrypted")
    }
    print("no word of a message is readable in the files of the store")
    try store.close()
}

// MARK: The program

struct Failure: Error, CustomStringConvertible {
    let description: String
}

func check(_ condition: Bool, _ what: String) throws {
    if !condition { throw Failure(description: "not true: \(what)") }
}

/// Runs this program in another process and waits for it.
func runThisProgram(_ arguments: [String]) throws {
    fflush(nil)  // what this process printed comes first
    let process = Process()
    process.executableURL = Bundle.main.executableURL
    process.arguments = arguments
    try process.run()
    process.waitUntilExit()
    try check(process.terminationStatus == 0, "the other process succeeded")
}

/// A folder for the store, with a random passphrase in a file that its owner alone can read. A program that stays
/// installed makes its key once: `(umask 077; openssl rand -base64 32 > inbox.key)`.
func makeFolder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "inbox-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let passphrase = UUID().uuidString + UUID().uuidString
    let path = folder.appending(path: "inbox.key").path
    let owner: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
    try check(FileManager.default.createFile(atPath: path, contents: Data(passphrase.utf8), attributes: owner), "a key")
    return folder
}

let arguments = Array(CommandLine.arguments.dropFirst())
do {
    if arguments.count == 5, arguments[1] == "deliver" {
        try deliver(arguments[2], arguments[3], arguments[4], to: URL(filePath: arguments[0]))
    } else if arguments.count > 2, arguments[1] == "search" {
        let store = try openInbox(in: URL(filePath: arguments[0]))
        try show(arguments.dropFirst(2).joined(separator: " "), in: store)
        try store.close()
    } else if arguments.isEmpty {
        let folder = try makeFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try tour(in: folder)
    } else {
        throw Failure(description: "usage: Inbox [FOLDER deliver SENDER SUBJECT TEXT | FOLDER search WORDS]")
    }
} catch {
    FileHandle.standardError.write(Data("Inbox: \(error)\n".utf8))
    exit(1)
}
