import CipherStore
import Foundation

// A league in an encrypted store that two processes share. This process creates the teams. A second process, the
// referee, records a match meanwhile. Run it: `swift run PlayersAndTeams`.

// MARK: Records

struct Team: Codable, Identifiable, FetchableRecord, MutablePersistableRecord {
    enum Columns {
        static let name = Column(CodingKeys.name)
    }
    static let players = hasMany(Player.self)

    var id: Int64?
    var name: String

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

struct Player: Codable, Identifiable, FetchableRecord, MutablePersistableRecord {
    enum Columns {
        static let name = Column(CodingKeys.name)
        static let goals = Column(CodingKeys.goals)
    }
    static let team = belongsTo(Team.self)

    var id: Int64?
    var teamId: Int64?
    var name: String
    var goals = 0

    mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
}

/// A player, and the team.
struct Member: Decodable, FetchableRecord {
    var player: Player
    var team: Team
}

/// A team, and what its players achieved together.
struct Standing: Decodable, FetchableRecord {
    var team: Team
    var playerCount: Int
    var goals: Int
}

// MARK: The store

/// Opens the league, and creates it if there is none. Each process of the program calls this.
func openLeague(in folder: URL) throws -> SharedStore {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("teams and players") { db in
        try db.create(table: "team") { t in
            t.autoIncrementedPrimaryKey("id")
            t.column("name", .text).notNull().unique()
        }
        try db.create(table: "player") { t in
            t.autoIncrementedPrimaryKey("id")
            t.belongsTo("team", onDelete: .cascade).notNull()
            t.column("name", .text).notNull()
            t.column("goals", .integer).notNull()
        }
    }
    let key = KeySource.keyFile(path: folder.appending(path: "league.key").path)
    return try SharedStore.open(at: folder.appending(path: "league.db").path, unlockedBy: key, migrator: migrator)
}

func standings(_ db: Database) throws -> [Standing] {
    try Team
        .annotated(with: Team.players.count, (Team.players.sum { $0.goals } ?? 0).forKey("goals"))
        .order { $0.name }
        .asRequest(of: Standing.self)
        .fetchAll(db)
}

// MARK: What the processes do

/// The first process: two teams, a match by the second process, and the result.
func organize(in folder: URL) throws {
    let store = try openLeague(in: folder)
    try store.write { db in
        try Team.deleteAll(db)
        var (rovers, wanderers) = (Team(name: "Rovers"), Team(name: "Wanderers"))
        try rovers.insert(db)
        try wanderers.insert(db)
        for name in ["Ada", "Grace"] {
            _ = try Player(teamId: rovers.id, name: name).inserted(db)
        }
        _ = try Player(teamId: wanderers.id, name: "Edsger").inserted(db)
    }
    print("process \(ProcessInfo.processInfo.processIdentifier) created the league:")
    try show(store.read(standings))

    try runThisProgram(["referee", folder.path])

    print("process \(ProcessInfo.processInfo.processIdentifier) reads the result:")
    let (table, scorers) = try store.read { db in
        let scorers = Player.including(required: Player.team)
            .filter { $0.goals > 0 }
            .order { [$0.goals.desc, $0.name] }
            .asRequest(of: Member.self)
        return (try standings(db), try scorers.fetchAll(db))
    }
    show(table)
    for member in scorers { print("  \(member.player.name) (\(member.team.name)): \(member.player.goals)") }
    try check(table.map(\.goals) == [3, 1] && table.map(\.playerCount) == [2, 2], "the result is that of the match")
    try check(scorers.map(\.player.name) == ["Ada", "Barbara", "Grace"], "these scored")
    try store.close()
}

/// The second process: records the goals of a match, in one transaction.
func referee(in folder: URL) throws {
    let store = try openLeague(in: folder)
    try store.write { db in
        try Player.filter { $0.name == "Ada" }.updateAll(db) { $0.goals += 2 }
        guard var grace = try Player.filter({ $0.name == "Grace" }).fetchOne(db) else { throw Failure("no Grace") }
        try grace.updateChanges(db) { $0.goals += 1 }
        let wanderers = try Team.filter { $0.name == "Wanderers" }.fetchOne(db)
        var substitute = Player(teamId: wanderers?.id, name: "Barbara", goals: 1)
        try substitute.insert(db)
    }
    print("process \(ProcessInfo.processInfo.processIdentifier), the referee, recorded 4 goals")
    try store.close()
}

// MARK: The program

struct Failure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

func check(_ condition: Bool, _ what: String) throws {
    if !condition { throw Failure("not true: \(what)") }
}

func show(_ table: [Standing]) {
    for row in table { print("  \(row.team.name): \(row.playerCount) players, \(row.goals) goals") }
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
/// installed makes its key once: `(umask 077; openssl rand -base64 32 > league.key)`.
func makeFolder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "league-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let passphrase = UUID().uuidString + UUID().uuidString
    let path = folder.appending(path: "league.key").path
    let owner: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
    try check(FileManager.default.createFile(atPath: path, contents: Data(passphrase.utf8), attributes: owner), "a key")
    return folder
}

let arguments = CommandLine.arguments.dropFirst()
do {
    if arguments.count == 2, arguments.first == "referee", let folder = arguments.last {
        try referee(in: URL(filePath: folder))
    } else {
        let folder = try makeFolder()
        defer { try? FileManager.default.removeItem(at: folder) }
        try organize(in: folder)
    }
} catch {
    FileHandle.standardError.write(Data("PlayersAndTeams: \(error)\n".utf8))
    exit(1)
}
