/// A failure that the commands find out by themselves, in the three parts that every error has.
struct CommandFailure: Error {
    let exitCode: ExitCode
    /// A stable name for programs.
    let name: String
    let what: String
    let why: String
    let hint: String

    init(_ exitCode: ExitCode, _ name: String, what: String, why: String, hint: String) {
        self.exitCode = exitCode
        self.name = name
        self.what = what
        self.why = why
        self.hint = hint
    }
}
