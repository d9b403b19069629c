import StorePlatform

/// A prompt before an irreversible action.
enum Confirmation {
    /// Prompts at the terminal unless `--yes` was given.
    ///
    /// - Throws: ``UsageError`` without a terminal; ``CommandFailure`` when the answer is not yes.
    static func require(_ question: String, _ arguments: ParsedArguments) throws {
        if arguments.has("--yes") { return }
        guard KeyOptions.canPrompt else {
            throw UsageError(
                "This needs a confirmation, and there is no terminal to ask at.", hint: "Add --yes to do it.")
        }
        let answer = try Self.answer(to: "\(question.withoutControls()) Type yes to do it: ")
        guard answer?.lowercased() == "yes" else {
            throw CommandFailure(
                .failed, "declined", what: "Nothing was done.", why: "The answer was not yes.",
                hint: "Run the command again, or add --yes.")
        }
    }

    /// The text that the user typed at the terminal; nil if the input ended first, for example by Ctrl-D.
    static func answer(to prompt: String) throws -> String? {
        do throws(Terminal.Failure) {
            return try Terminal.ask(prompt: prompt)
        } catch {
            if error == .inputEnded { return nil }
            if Interruption.hasArrived { try Interruption.shared.check() }
            throw CommandFailure(
                .inputOutput, "terminal", what: "The question was not answered.", why: error.description,
                hint: "Run the command again.")
        }
    }
}
