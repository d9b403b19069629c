import CipherStore

extension Actor {
    /// Copies of a store: `run SQL` runs a statement of any words outside of a transaction.
    static let backupCommands: [String: Command] = [
        "run": { actor, words in
            try actor.writer().writeWithoutTransaction { try $0.execute(sql: words.joined(separator: " ")) }
            return ""
        }
    ]
}
