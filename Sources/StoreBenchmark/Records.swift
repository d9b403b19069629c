import CipherStore
import Foundation

// The record types of the benchmark, as programs write them.

/// Ten integers, read by position.
struct IntegersByPosition: FetchableRecord {
    let c0, c1, c2, c3, c4, c5, c6, c7, c8, c9: Int

    init(row: Row) {
        c0 = row[0]
        c1 = row[1]
        c2 = row[2]
        c3 = row[3]
        c4 = row[4]
        c5 = row[5]
        c6 = row[6]
        c7 = row[7]
        c8 = row[8]
        c9 = row[9]
    }
}

/// Ten integers, read and written by name.
struct IntegersByName: FetchableRecord, PersistableRecord {
    static let databaseTableName = "t"
    let c0, c1, c2, c3, c4, c5, c6, c7, c8, c9: Int

    init(from first: Int) {
        (c0, c1, c2, c3, c4) = (first, first + 1, first + 2, first + 3, first + 4)
        (c5, c6, c7, c8, c9) = (first + 5, first + 6, first + 7, first + 8, first + 9)
    }

    init(row: Row) {
        c0 = row["c0"]
        c1 = row["c1"]
        c2 = row["c2"]
        c3 = row["c3"]
        c4 = row["c4"]
        c5 = row["c5"]
        c6 = row["c6"]
        c7 = row["c7"]
        c8 = row["c8"]
        c9 = row["c9"]
    }

    func encode(to container: inout PersistenceContainer) {
        container["c0"] = c0
        container["c1"] = c1
        container["c2"] = c2
        container["c3"] = c3
        container["c4"] = c4
        container["c5"] = c5
        container["c6"] = c6
        container["c7"] = c7
        container["c8"] = c8
        container["c9"] = c9
    }
}

/// Ten integers, as Swift encodes and decodes them.
struct CodableIntegers: Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "t"
    let c0, c1, c2, c3, c4, c5, c6, c7, c8, c9: Int

    init(from first: Int) {
        (c0, c1, c2, c3, c4) = (first, first + 1, first + 2, first + 3, first + 4)
        (c5, c6, c7, c8, c9) = (first + 5, first + 6, first + 7, first + 8, first + 9)
    }
}

/// A text, a blob, a double and a date.
struct Mixed: FetchableRecord, PersistableRecord {
    static let databaseTableName = "t"
    let text: String
    let blob: Data
    let number: Double
    let date: Date

    init(_ values: MixedValues, _ index: Int) {
        text = values.texts[index]
        blob = values.blobs[index]
        number = values.numbers[index]
        date = values.dates[index]
    }

    init(row: Row) {
        text = row["text"]
        blob = row["blob"]
        number = row["number"]
        date = row["date"]
    }

    func encode(to container: inout PersistenceContainer) {
        container["text"] = text
        container["blob"] = blob
        container["number"] = number
        container["date"] = date
    }
}

/// The same, as Swift decodes it.
struct CodableMixed: Decodable, FetchableRecord {
    let text: String
    let blob: Data
    let number: Double
    let date: Date
}

/// A player with a key.
struct Player: FetchableRecord, PersistableRecord {
    enum Columns {
        static let id = Column("id")
        static let score = Column("score")
    }
    let id: Int64
    let name: String
    let score: Int

    init(id: Int64, name: String, score: Int) { (self.id, self.name, self.score) = (id, name, score) }

    init(row: Row) {
        id = row["id"]
        name = row["name"]
        score = row["score"]
    }

    func encode(to container: inout PersistenceContainer) {
        container["id"] = id
        container["name"] = name
        container["score"] = score
    }

    /// The sum that C makes of it.
    var sum: Int64 { id + Int64(name.utf8.count) + Int64(score) }
}

/// The same, as Swift decodes it.
struct CodablePlayer: Codable, FetchableRecord, PersistableRecord {
    static let databaseTableName = "player"
    let id: Int64
    let name: String
    let score: Int

    var sum: Int64 { id + Int64(name.utf8.count) + Int64(score) }
}

struct Author: Codable, FetchableRecord, PersistableRecord {
    static let books = hasMany(Book.self)
    let id: Int64
    let name: String
}

struct Book: Codable, FetchableRecord, PersistableRecord {
    let id: Int64
    let authorId: Int64
    let title: String
}

/// An author with the books.
struct AuthorWithBooks: Decodable, FetchableRecord {
    let author: Author
    let books: [Book]

    /// The sum that C makes of it.
    var sum: Int64 {
        books.reduce(author.id + Int64(author.name.utf8.count)) {
            $0 + $1.id + $1.authorId + Int64($1.title.utf8.count)
        }
    }
}

/// An author whose record is written by hand.
struct PlainAuthor: FetchableRecord, TableRecord {
    static let databaseTableName = "author"
    static let books = hasMany(PlainBook.self)
    let id: Int64
    let name: String

    init(row: Row) {
        id = row["id"]
        name = row["name"]
    }
}

struct PlainBook: FetchableRecord, TableRecord {
    static let databaseTableName = "book"
    let id: Int64
    let authorId: Int64
    let title: String

    init(row: Row) {
        id = row["id"]
        authorId = row["authorId"]
        title = row["title"]
    }
}

/// The same with the books.
struct PlainAuthorWithBooks: FetchableRecord {
    let author: PlainAuthor
    let books: [PlainBook]

    init(row: Row) {
        author = PlainAuthor(row: row)
        books = row["books"]
    }

    var sum: Int64 {
        books.reduce(author.id + Int64(author.name.utf8.count)) {
            $0 + $1.id + $1.authorId + Int64($1.title.utf8.count)
        }
    }
}
