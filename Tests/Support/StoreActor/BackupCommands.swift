import CipherStore
import TestKit

extension Actor {
    /// Copies of a store: `run SQL` runs a statement of any words outside of a transaction, `backup FOLDER` backs up the
    /// open store, `restore FOLDER PATH KEY [replace]` makes a store, `destroy PATH` removes one.
    static let backupCommands: [String: Command] = [
        "run": { actor, words in
            try actor.writer().writeWithoutTransaction { try $0.execute(sql: words.joined(separator: " ")) }
            return ""
        },
        "backup": { actor, words in
            guard let store = actor.store else { throw ActorError.nothingIsOpen }
            return String(try store.backup(toFolder: words[0]).pages)
        },
        "restore": { _, words in
            let report = try SharedStore.restore(
                from: words[0], to: words[1], unlockedBy: TestKeys.source(words[2]), replacing: words.count > 3)
            return report.formerFiles ?? "nothing"
        },
        "destroy": { _, words in String(try SharedStore.destroy(at: words[0]).removed.count) },
    ]
}
