import CipherStore
import Foundation
import KeyCustody
import StoreCrypto
import StorePlatform
import StoreSharing
import TestKit

extension Actor {
    /// The records of a rotation, without the rotation: sidecars alone, with the raw keys of ``JournalCase``.
    ///
    /// - `journal-make PATH CASE`: the sidecar of a store that is ready.
    /// - `journal PATH CASE begin|switch|complete|abandon`: the next entry of a rotation.
    static let journalCommands: [String: Command] = [
        "journal-make": { _, words in
            guard words.count == 2, let kind = JournalCase(rawValue: words[1]) else {
                throw ActorError.badArguments(words)
            }
            try kind.make(words[0])
            return ""
        },
        "journal": { _, words in
            guard words.count == 3, let kind = JournalCase(rawValue: words[1]) else {
                throw ActorError.badArguments(words)
            }
            let file = try LockFile(path: words[0] + "-lock", likeFile: nil)
            let locks = try [LockByte.opening, .admin].map {
                try file.lock($0, .exclusive, deadline: .now + .seconds(5))
            }
            defer { for lock in locks { lock.release() } }
            let journal = try JournalCase.journal(words[0], key: 0)
            switch words[2] {
            case "begin": try journal.begin(kind.mode())
            case "switch": try journal.announceSwitch(pages: 9)
            case "complete": try journal.complete()
            case "abandon": try journal.abandon()
            default: throw ActorError.badArguments(words)
            }
            return ""
        },
    ]
}
