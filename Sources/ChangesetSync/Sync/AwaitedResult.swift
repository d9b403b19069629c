extension Result where Failure == any Error {
    /// What a call that waits has returned or thrown.
    ///
    /// Where a call that waits stands between `do` and `catch` among others, the release build of Swift 6.3 has ended the
    /// program ("freed pointer was not the last allocation"). Here alone it does not.
    @inline(never)
    package init(of body: () async throws -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
