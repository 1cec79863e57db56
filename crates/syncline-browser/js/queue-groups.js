// A number for each group of a queue, as the rules know groups: 0 is the group without a name.
//
// Guarantees: a name has one number while the rules know anything of its group; numbers that are taken back are given again.

export class GroupNumbers {
  #rules;
  #numbers = new Map([["", 0]]);
  #names = [""];
  #free = [];
  // Given since the last look, perhaps to groups that the rules have never come to know.
  #fresh = [];

  // The rules can be opened after the first names have numbers.
  use(rules) {
    this.#rules = rules;
  }

  get isEmpty() {
    return this.#numbers.size === 1;
  }

  name(number) {
    return this.#names[number];
  }

  number(name) {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.#free.pop() ?? this.#names.length;
    this.#names[number] = name;
    this.#numbers.set(name, number);
    this.#fresh.push(number);
    return number;
  }

  // Those that were given and are not needed after all.
  settle() {
    this.takeBack(this.#fresh.splice(0));
  }

  takeBack(numbers) {
    for (const number of numbers) {
      const name = this.#names[number];
      if (number === 0 || name === undefined || this.#rules.knowsGroup(number)) continue;
      this.#numbers.delete(name);
      this.#names[number] = undefined;
      this.#free.push(number);
    }
  }
}
