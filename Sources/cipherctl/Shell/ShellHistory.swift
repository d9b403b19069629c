import Foundation
import StorePlatform

/// The file of typed statements: one line each, readable by its owner alone.
///
/// It is `$CIPHERSTORE_HISTORY`, or `cipherstore/history` in `$XDG_STATE_HOME` (`~/.local/state`). Statements that could
/// hold keys are never written. A file that is a link, belongs to another user or cannot be written gets a warning, and
/// the shell works without it.
final class ShellHistory {
    /// The most lines that are read and kept.
    static let keptLines = 1000
    private static let mostBytes = 1 << 20
    private static let environmentName = "CIPHERSTORE_HISTORY"

    private var path: String?

    /// - Parameter path: nil for no file.
    init(path: String?) { self.path = path }

    /// The path that the environment chooses; nil if it names no home.
    static func usualPath(
        environment: (String) -> [UInt8]? = { ProcessInspector.environmentValue($0) }
    ) -> String? {
        func value(_ name: String) -> String? {
            environment(name).map { String(decoding: $0, as: UTF8.self) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        if let chosen = value(environmentName) { return chosen }
        // The specification ignores a relative path.
        let state = value("XDG_STATE_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
        return (state ?? value("HOME").map { $0 + "/.local/state" }).map { $0 + "/cipherstore/history" }
    }

    /// The lines of earlier shells, the oldest first. The file is shortened to them when it is long.
    func load() -> [String] {
        guard let path else { return [] }
        do {
            try makeFolders(of: path)
            guard let status = try Files.ownStatus(of: path) else { return [] }
            try requireOwn(status, path)
            // The last bytes of a long file.
            let file = try FileDescriptor(opening: path, .readOnly, followsLinks: false)
            let start = max(0, status.byteCount - Self.mostBytes)
            var bytes = try file.read(at: start, byteCount: Self.mostBytes)
            if start > 0 { bytes = Array(bytes.drop { $0 != UInt8(ascii: "\n") }.dropFirst()) }
            let all = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
            let kept = Array(all.suffix(Self.keptLines))
            if start > 0 || all.count > 2 * Self.keptLines {
                let text = kept.joined(separator: "\n") + "\n"
                try AtomicFile.write(Array(text.utf8), to: path, likeFile: nil)
            }
            return kept.filter { !$0.unicodeScalars.contains(where: \.steersTerminal) }
        } catch {
            giveUp(error)
            return []
        }
    }

    /// Appends the lines of a statement, unless it could hold a key.
    ///
    /// - Returns: Whether a shell may offer the lines again.
    @discardableResult
    func add(_ lines: [String]) -> Bool {
        guard !Self.mayHoldSecret(lines.joined(separator: "\n")) else { return false }
        guard let path else { return true }
        do {
            let text = lines.filter { !$0.isEmpty }.map { $0.replacing("\n", with: " ") + "\n" }.joined()
            let file = try FileDescriptor(
                opening: path, .readWrite, creating: .ifMissing(permissions: 0o600), followsLinks: false)
            let status = try file.status()
            try requireOwn(status, path)
            if status.permissions & 0o077 != 0 { try file.setPermissions(0o600) }
            // Shells at the same time may overwrite a line of each other.
            try file.write(Array(text.utf8), at: status.byteCount)
        } catch {
            giveUp(error)
        }
        return true
    }

    private func makeFolders(of path: String) throws {
        let folder = Files.directory(of: path)
        guard try Files.kind(folder) == nil else { return }
        try makeFolders(of: folder)
        try Files.makeDirectory(folder)
    }

    private func requireOwn(_ status: FileStatus, _ path: String) throws {
        if status.isLink { throw HistoryRefusal(why: "it is a symbolic link") }
        if status.owner != ProcessInspector.effectiveUser {
            throw HistoryRefusal(why: "it belongs to user \(status.owner)")
        }
        if let kind = status.oddKind { throw HistoryRefusal(why: "it is \(kind)") }
        if status.linkCount > 1 { throw HistoryRefusal(why: "it has a second name") }
    }

    private func giveUp(_ error: any Error) {
        let why = (error as? HistoryRefusal)?.why ?? "\(error)"
        Console.warn("the history of this shell is not kept: \"\(path ?? "")\": \(why)")
        path = nil
    }

    private struct HistoryRefusal: Error {
        let why: String
    }

    // MARK: Secrets

    private static let keyWords: Set = ["rekey", "hexkey", "hexrekey", "textkey", "textrekey", "cipher_salt"]
    private static let secretWords = ["passphrase", "password", "passwd", "secret"]
    private static let keyedStatements: Set = ["pragma", "attach", "vacuum", "file"]
    /// The first words of statements. Anything else may be a passphrase that was typed at the wrong prompt.
    private static let starts: Set = [
        "alter", "analyze", "attach", "begin", "commit", "create", "delete", "detach", "drop", "end", "explain",
        "insert",
        "pragma", "reindex", "release", "replace", "rollback", "savepoint", "select", "update", "vacuum", "values",
        "with",
    ]

    /// Whether a statement could hold a key, a passphrase or a salt: by its pragma, as an option of an attached or written
    /// file, by a word for a secret, as a long row of hexadecimal digits, or because it is no statement.
    static func mayHoldSecret(_ statement: String) -> Bool {
        let words = statement.lowercased().split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init)
        let all = Set(words)
        let body = statement.droppingLeadingComments()
        let first = body.prefix { $0.isLetter }.lowercased()
        if !starts.contains(first), !body.isEmpty, !body.hasPrefix("."), !body.hasPrefix("(") { return true }
        if !all.isDisjoint(with: keyWords) { return true }
        if all.contains("key"), !all.isDisjoint(with: keyedStatements) { return true }
        if words.contains(where: { word in secretWords.contains(where: word.contains) }) { return true }
        return words.contains { $0.count >= 32 && $0.allSatisfy(\.isHexDigit) }
    }
}
