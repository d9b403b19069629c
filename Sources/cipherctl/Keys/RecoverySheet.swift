import KeyCustody
import StorePlatform

/// The four lines of a recovery key, shown once.
struct RecoverySheet {
    let lines: [String]

    init(_ recovery: RecoveryKey) {
        let text = recovery.text().withBytes { String(decoding: $0, as: UTF8.self) }
        lines = text.split(separator: "\n").map(String.init)
    }

    /// Says what follows. The lines alone go to standard output: what is sent to a printer or a file is the key.
    func announce(at console: Console) {
        console.note("this recovery key is shown once: write it down, and keep it away from the store")
    }

    private static let attempts = 3

    /// Asks for one of the lines.
    ///
    /// - Throws: ``CommandFailure`` when it is not typed as it was shown.
    func askBack() throws {
        let index = Int.random(in: lines.indices)
        for _ in 0..<Self.attempts {
            let prompt = "Type line \(index + 1) of it, to be sure that you have it: "
            guard let typed = try Confirmation.answer(to: prompt) else { break }
            if Self.symbols(typed) == Self.symbols(lines[index]) { return }
            Console.talk("That is not line \(index + 1).\n")
        }
        throw CommandFailure(
            .failed, "declined", what: "No recovery key was made.", why: "The line was not typed as it was shown.",
            hint: "What was shown opens nothing. Run the command again.")
    }

    /// What counts of a line: as a recovery key is read.
    static func symbols(_ line: String) -> String {
        String(
            line.uppercased().compactMap { character -> Character? in
                switch character {
                case " ", "-", "\t", "\r": nil
                case "I", "L": "1"
                case "O": "0"
                default: character
                }
            })
    }
}
