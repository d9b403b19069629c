import CipherStore
import Foundation

// Books, their authors and genres, in an encrypted store that two processes share. The first version of the program
// knows authors and books; the second one adds genres by a migration. Run it: `swift run Bookshelf`.

// MARK: Records

struct Author: Codable, Identifiable, FetchableRecord, PersistableRecord {
    enum Columns {
        static let name = Column(CodingKeys.name)
    }
    static let books = hasMany(Book.self)
    static let genres = hasMany(Genre.self, through: books, using: Book.genres)

    var id: Int64
    var name: String
}

struct Book: Codable, Identifiable, FetchableRecord, PersistableRecord {
    enum Columns {
        static let title = Column(CodingKeys.title)
        static let year = Column(CodingKeys.year)
    }
    static let author = belongsTo(Author.self)
    static let bookGenres = hasMany(BookGenre.self)
    static let genres = hasMany(Genre.self, through: bookGenres, using: BookGenre.genre)

    var id: Int64
    var authorId: Int64
    var title: String
    var year: Int
}

struct Genre: Codable, Identifiable, FetchableRecord, PersistableRecord {
    enum Columns {
        static let id = Column(CodingKeys.id)
    }
    static let bookGenres = hasMany(BookGenre.self)
    static let books = hasMany(Book.self, through: bookGenres, using: BookGenre.book)

    /// The name of the genre is its key.
    var id: String
}

/// One genre of one book: the table between them.
struct BookGenre: Codable, FetchableRecord, PersistableRecord {
    static let book = belongsTo(Book.self)
    static let genre = belongsTo(Genre.self)

    var bookId: Int64
    var genreId: String
}

/// An author with the books, each of them with its genres.
struct Shelf: Decodable, FetchableRecord {
    struct Entry: Decodable {
        var book: Book
        var genres: [Genre]
    }
    var author: Author
    var books: [Entry]
}

// MARK: The store

/// The schema of each version of the program. A migration that was released is never changed: add another one.
func makeMigrator(version: Int) -> DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("authors and books") { db in
        try db.create(table: "author") { t in
            t.primaryKey("id", .integer)
            t.column("name", .text).notNull()
        }
        try db.create(table: "book") { t in
            t.primaryKey("id", .integer)
            t.belongsTo("author").notNull()
            t.column("title", .text).notNull()
            t.column("year", .integer).notNull()
        }
    }
    guard version > 1 else { return migrator }
    migrator.registerMigration("genres") { db in
        try db.create(table: "genre") { t in t.primaryKey("id", .text) }
        try db.create(table: "bookGenre") { t in
            t.primaryKey {
                t.belongsTo("book", onDelete: .cascade)
                t.belongsTo("genre", onDelete: .cascade)
            }
        }
    }
    return migrator
}

/// Opens the store, creates it if there is none, and runs the migrations that it does not have yet.
func openShelf(in folder: URL, version: Int) throws -> SharedStore {
    try SharedStore.open(
        at: folder.appending(path: "shelf.db").path,
        unlockedBy: .keyFile(path: folder.appending(path: "shelf.key").path),
        migrator: makeMigrator(version: version))
}

// MARK: What the processes do

/// The first process: version 1 writes books, version 2 reads them with the genres that the second process adds.
func collect(in folder: URL) throws {
    let former = try openShelf(in: folder, version: 1)
    try former.write { db in
        try Author(id: 1, name: "Mary Shelley").insert(db)
        try Author(id: 2, name: "Jules Verne").insert(db)
        try Book(id: 1, authorId: 1, title: "Frankenstein", year: 1818).insert(db)
        try Book(id: 2, authorId: 1, title: "The Last Man", year: 1826).insert(db)
        try Book(id: 3, authorId: 2, title: "Journey to the Center of the Earth", year: 1864).insert(db)
    }
    try former.close()
    print("version 1 wrote authors and books, process \(ProcessInfo.processInfo.processIdentifier)")

    let store = try openShelf(in: folder, version: 2)
    try print("version 2 has the migrations", store.read(makeMigrator(version: 2).appliedMigrations))
    try runThisProgram(["librarian", folder.path])
    try store.read { db in
        // One query for the authors, one for all of their books, one for all genres of these.
        let shelves =
            try Author
            .including(all: Author.books.including(all: Book.genres.order { $0.id }).order { $0.year })
            .order { $0.name }
            .asRequest(of: Shelf.self)
            .fetchAll(db)
        for shelf in shelves {
            print("  \(shelf.author.name)")
            for entry in shelf.books {
                print("    \(entry.book.year) \(entry.book.title): \(entry.genres.map(\.id).joined(separator: ", "))")
            }
        }
        try check(shelves.map { $0.books.map(\.genres.count) } == [[2], [2, 1]], "each book has its genres")
        let travels = try Book.joining(required: Book.genres.filter { $0.id == "travel" }).fetchAll(db)
        try check(travels.map(\.id) == [3], "one book is about a travel")
        let genres = try shelves[1].author.request(for: Author.genres).distinct().order { $0.id }.fetchAll(db)
        try check(genres.map(\.id) == ["gothic", "science fiction"], "the genres of an author, through the books")
    }
    try store.close()
}

/// The second process: the librarian adds genres.
func classify(in folder: URL) throws {
    let store = try openShelf(in: folder, version: 2)
    let genres: [Int64: [String]] = [
        1: ["gothic", "science fiction"], 2: ["science fiction"], 3: ["adventure", "travel"],
    ]
    try store.write { db in
        for (book, names) in genres {
            for name in names {
                try Genre(id: name).save(db)
                try BookGenre(bookId: book, genreId: name).insert(db)
            }
        }
    }
    print("process \(ProcessInfo.processInfo.processIdentifier), the librarian, added genres")
    try store.close()
}

// MARK: The program

struct Failure: Error, CustomStringConvertible {
    let description: String
}

func check(_ condition: Bool, _ what: String) throws {
    if !condition { throw Failure(description: "not true: \(what)") }
}

/// Runs this program in a second process and waits for it.
func runThisProgram(_ arguments: [String]) throws {
    fflush(nil)  // what this process printed comes first
    let process = Process()
    process.executableURL = Bundle.main.executableURL
    process.arguments = arguments
    try process.run()
    process.waitUntilExit()
    try check(process.terminationStatus == 0, "the second process succeeded")
}

/// A folder for the store, with a random passphrase in a file that its owner alone can read. A program that stays
/// installed makes its key once: `(umask 077; openssl rand -base64 32 > shelf.key)`.
func makeFolder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "shelf-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let passphrase = UUID().uuidString + UUID().uuidString
    let path = folder.appending(path: "shelf.key").path
    let owner: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
    try check(FileManager.default.createFile(atPath: path, contents: Data(passphrase.utf8), attributes: owner), "a key")
    return folder
}

let arguments = CommandLine.arguments.dropFirst()
do {
    if arguments.count == 2, arguments.first == "librarian", let folder = arguments.last {
        try classify(in: URL(filePath: folder))
    } else {
        let folder = try makeFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try collect(in: folder)
    }
} catch {
    FileHandle.standardError.write(Data("Bookshelf: \(error)\n".utf8))
    exit(1)
}
