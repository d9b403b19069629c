import Foundation
import TestKit
import Testing

/// A folder of mode 2770 that two users share, and a private folder of the first of them, whose commands are run.
///
/// The second user, the attacker, may do in the shared folder whatever a member of its group may do.
final class SharedFolder {
    static let isPossible = geteuid() == 0 && SystemProgram.find("setpriv") != nil
    /// Whether the attacker can exchange names in a loop.
    static let canExchange = isPossible && SystemProgram.find("python3") != nil

    static let (caller, attacker, group): (uid_t, uid_t, gid_t) = (52_001, 52_002, 52_000)
    let place: Workplace
    /// The caller's key files are in it, and ``precious`` files.
    let home: String
    private let program: String
    private let template: String
    var path: String { place.path("shared") }

    /// Files with names that a command might take for its own.
    private static let precious = [
        "secret", "empty", "app.db", "app.db-wal", "app.db-journal", "app.db-sidecar", "new.db-wal", "new.db-journal",
        "new.db-sidecar", "out.db", "out.db-wal", "std.db", "store.db", "manifest.json", "import.lock", "backup.lock",
    ]

    init() throws {
        place = try Workplace()
        (home, program, template) = (place.path("own"), place.path("cipherctl"), place.path("template"))
        try set(place.folder.url.path, owner: 0, mode: 0o755)
        try FileManager.default.copyItem(atPath: Workplace.program().path, toPath: program)
        for folder in [home, "\(home)/private"] {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            try set(folder, owner: Self.caller, mode: 0o700)
        }
        for (name, byte) in [("raw.key", UInt8(0x2a)), ("two.key", 0x2b)] {
            try Workplace.write([UInt8](repeating: byte, count: 32), to: "\(home)/\(name)")
            try set("\(home)/\(name)", owner: Self.caller, mode: 0o600)
        }
        for name in Self.precious {
            try Workplace.write(Array((name == "empty" ? "" : "precious \(name)").utf8), to: "\(home)/private/\(name)")
            try set("\(home)/private/\(name)", owner: Self.caller, mode: 0o600)
        }
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try set(path, owner: Self.caller, mode: 0o2770)
        try fill()
        try copy(path, to: template)
    }

    /// With owners and modes.
    private func copy(_ source: String, to target: String) throws {
        let copied = try CommandRun(#require(SystemProgram.find("cp")), ["-a", source, target]).finish()
        try #require(copied.status == 0, "\(copied.errors)")
    }

    private func fill() throws {
        for name in ["notes", "blank"] {
            try Workplace.write(Array((name == "notes" ? "notes of the caller" : "").utf8), to: "\(path)/\(name)")
        }
        try FileManager.default.copyItem(atPath: Workplace.fixture("plain.db"), toPath: "\(path)/plain.db")
        try AdoptionFixture(place).makeStandard("shared/std.db")
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            try set("\(path)/\(name)", owner: Self.caller, mode: 0o660)
        }
        let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b')"
        for command in [
            ["create", "app.db", "--mode", "0660"], ["sql", "app.db", table, "--write"],
            ["history", "record", "app.db", "--all"], ["backup", "app.db", "copy"],
        ] {
            let outcome = try run(command)
            try #require(outcome.status == 0, "\(command): \(outcome.errors)")
        }
    }

    /// Makes the shared folder as it was in the beginning.
    func reset() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: path) {
            try FileManager.default.removeItem(atPath: "\(path)/\(name)")
        }
        try copy("\(template)/.", to: path)
    }

    private func set(_ path: String, owner: uid_t, mode: Int) throws {
        let group = owner == 0 ? 0 : Self.group
        try FileManager.default.setAttributes(
            [.ownerAccountID: Int(owner), .groupOwnerAccountID: Int(group), .posixPermissions: mode],
            ofItemAtPath: path)
    }

    // MARK: Processes

    private func start(as user: uid_t, _ words: [String]) throws -> CommandRun {
        try CommandRun(
            #require(SystemProgram.find("setpriv")),
            ["--reuid=\(user)", "--regid=\(Self.group)", "--clear-groups"] + words, directory: path)
    }

    /// Runs cipherctl in the shared folder as the caller, with the raw key if the command takes a key.
    func run(_ arguments: [String], withKey: Bool = true) throws -> CommandRun.Outcome {
        let isKeyless =
            !withKey || arguments.first == "destroy" || arguments.starts(with: ["key", "log"])
            || arguments.starts(with: ["backup", "list"])
        let key = isKeyless ? [] : ["--raw-key-file", "\(home)/raw.key"]
        return try start(as: Self.caller, [program] + arguments + key).finish()
    }

    /// Runs `watch` for a moment, and for a longer one where it had not opened the store by then.
    func watch() throws -> CommandRun.Outcome {
        let watch = [program, "watch", "app.db", "--raw-key-file", "\(home)/raw.key"]
        var outcome: CommandRun.Outcome
        var seconds = 1
        repeat {
            let timeout = ["timeout", "--preserve-status", "--signal=INT", "\(seconds)"]
            outcome = try start(as: Self.caller, timeout + watch).finish()
            seconds *= 2
        } while outcome.status == 130 && seconds < 32
        return outcome
    }

    /// Starts a program of the attacker in the shared folder.
    func attack(_ words: [String]) throws -> CommandRun { try start(as: Self.attacker, words) }

    // MARK: Planting

    enum Plant: String, CaseIterable {
        case link, linkToEmpty, linkToFolder, dangling, pipe, folder, file, secondName, secondNameOfEmpty, device
    }

    /// Puts something of the attacker's in the place of a name; what had the name is moved aside.
    ///
    /// - Parameter target: The private file to which `link` leads.
    func plant(_ plant: Plant, at name: String, to target: String = "secret") throws {
        let (entry, manager) = ("\(path)/\(name)", FileManager.default)
        if (try? manager.attributesOfItem(atPath: entry)) != nil { rename(entry, entry + "-moved") }
        switch plant {
        case .link: symlink("\(home)/private/\(target)", entry)
        case .linkToEmpty: symlink("\(home)/private/empty", entry)
        case .linkToFolder: symlink("\(home)/private", entry)
        case .dangling: symlink("\(home)/private/nothing", entry)
        case .pipe: mkfifo(entry, 0o666)
        case .folder:
            try manager.createDirectory(atPath: entry, withIntermediateDirectories: false)
            chmod(entry, 0o2777)
        case .file:
            try Workplace.write(Array("of the attacker".utf8), to: entry)
            chmod(entry, 0o666)
        case .secondName: link("\(path)/notes", entry)
        case .secondNameOfEmpty: link("\(path)/blank", entry)
        // The numbers of /dev/null.
        case .device: mknod(entry, S_IFCHR | 0o666, 1 << 8 | 3)
        }
        if plant != .secondName && plant != .secondNameOfEmpty { lchown(entry, Self.attacker, Self.group) }
    }

    // MARK: Checking

    /// Content, mode and owner of each file of the caller that no command may change, and every name in the private folder
    /// but new ones that nobody has: `staged-<16 digits>`.
    func state() throws -> [String: String] {
        var state: [String: String] = [:]
        let folder = "\(home)/private"
        let names = try FileManager.default.contentsOfDirectory(atPath: folder)
            .filter { !$0.hasPrefix("staged-") }.map { "\(folder)/\($0)" }
        for file in names + ["\(path)/notes", "\(path)/blank", folder, home] {
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            let isFile = attributes[.type] as? FileAttributeType == .typeRegular
            let bytes = isFile ? try Data(contentsOf: URL(fileURLWithPath: file)) : Data()
            let facts = [FileAttributeKey.posixPermissions, .ownerAccountID, .groupOwnerAccountID].map { key in
                (attributes[key] as? NSNumber)?.stringValue ?? "?"
            }
            state[file] = (facts + [String(decoding: bytes, as: UTF8.self)]).joined(separator: " ")
        }
        return state
    }
}
